// Tests the number of copies that the counts of a pattern make, as the lint
// reports it.
#include <string>

#include "doctest/doctest.h"
#include "lint/target.h"

namespace shardc {
namespace {

// Returns the number that SHD112 reports for the pattern; empty if it reports
// nothing.
std::string ReportedCopies(const std::string& pattern) {
  const std::string rules = "version: 1\nrules:\n  - match: '" + pattern +
                            "'\n    spec: ColumnWise\n";
  const LintExample example{
      .mesh = "fsdp:2,tp:4",
      .rules = rules,
      .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}})"};
  for (const Finding& finding : FindingsOf(example)) {
    if (finding.code->Id() != "SHD112") continue;
    const std::string_view message = finding.message;
    const size_t begin = message.find(" repeats a part ") + 16;
    return std::string(message.substr(begin, message.find(' ', begin) - begin));
  }
  return "";
}

TEST_CASE("nested counts are multiplied, and counts side by side are not") {
  struct Case {
    const char* pattern;
    const char* copies;
  };
  const Case cases[] = {
      {"up/a{499}", ""},
      {"up/a{500}", "500"},
      {"up/a{2,500}", "500"},
      {"up/a{500,}", "500"},
      {"up/(a{20}){30}", "600"},
      {"up/(a{20}b{3}){30}", "600"},
      {"up/(b{3}a{20}c){30}", "600"},
      {"up/a{20}(b){30}", ""},
      {"up/a{20}b{30}", ""},
      {"up/(a{20}|b{30}){25}", "750"},
      {"up/((a{5}){10}b{3}){20}", "1,000"},
      {"up/(?:[a{b}]{20}){30}", "600"},
      {"up/[(]{20}(b){30}", ""},
      {"up/\\(a{20}\\){30}", ""},
      {"up/[])]{20}x{30}", ""},
      {"up/\\x{600}", ""},
      {"up/\\x{61}{600}", "600"},
      {"up/\\Qa{600}\\E", ""},
      {"up/\\Qa\\E{600}", "600"},
      {"up/[[:alpha:]{600}]", ""},
      {"up/[[:alpha:]]{600}", "600"},
  };
  for (const Case& one : cases) {
    const std::string pattern = one.pattern;
    CAPTURE(pattern);
    CHECK(ReportedCopies(pattern) == one.copies);
  }
}

}  // namespace
}  // namespace shardc
