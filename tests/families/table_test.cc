// Compares the parameter trees of public configurations with
// testdata/tables/families.txt: groups of equal layers with shapes, in each
// naming.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "emit/plans/input_text.h"
#include "families/families.h"
#include "tables.h"

namespace shardc::families {
namespace {

std::string Result(const TableCase& given) {
  const std::string path = std::string(std::getenv("SHARDC_SOURCE_ROOT")) +
                           "/testdata/configs/" + given.title + ".config.json";
  std::string out, before;
  for (const std::string_view naming : kNamings) {
    Findings findings;
    const auto tree = BuildTree(path, naming, findings);
    std::string text;
    for (const Finding& finding : findings.all()) {
      text += finding.code->Id() + " " + finding.message + "\n";
    }
    if (tree) text += ManifestText(*tree);
    out += "### " + std::string(naming) + "\n";
    out += text == before ? "as before\n" : text;
    before = text;
  }
  return out;
}

TEST_CASE("the trees of public configurations") {
  CheckTable("families.txt", Result);
}

}  // namespace
}  // namespace shardc::families
