// Every numeric vector agrees or falls under a listed difference.
#include "numeric.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "source/file.h"

namespace shardc::vectors {
namespace {

TEST_CASE("numeric vectors") {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  REQUIRE(root != nullptr);
  Findings findings;
  const SourceRef source = ReadSource(
      std::string(root) + "/testdata/vectors/numeric.json", findings);
  REQUIRE(source);
  const auto document = JsonDocument::Parse(source, findings);
  REQUIRE(document);
  std::set<std::string_view> used;
  size_t count = 0;
  for (JsonValue c : document->root().Find("cases")->items()) {
    CAPTURE(c.Find("id")->string());
    CHECK(CheckNumeric(c) == "");
    used.insert(NumericDifferenceOf(c));
    ++count;
  }
  CHECK(count > 200);
  for (const Difference& difference : NumericDifferences()) {
    CAPTURE(difference.name);
    CHECK(used.count(difference.name) == 1);
  }
  CHECK(used.size() == NumericDifferences().size() + 1);
}

}  // namespace
}  // namespace shardc::vectors
