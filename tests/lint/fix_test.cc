// Compares the fixes of small rules files with testdata/tables/lint_fixes.txt.
#include "lint/fix.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/target.h"
#include "tables.h"

namespace shardc {
namespace {

// Returns a manifest of parameters of these names, with two dimensions each.
std::string ManifestOf(const std::string& names) {
  std::string out =
      R"({"schema": "shardc.manifest/v1", "separator": ".", "params": {)";
  for (size_t at = 0; at < names.size();) {
    const size_t end = names.find('\n', at);
    if (out.back() != '{') out += ", ";
    out += "\"" + names.substr(at, end - at) +
           "\": {\"shape\": [64, 64], \"dtype\": \"F32\"}";
    at = end + 1;
  }
  return out + "}}";
}

TEST_CASE("the fix of each finding of a rules file") {
  CheckTable("lint_fixes.txt", [](const TableCase& given) {
    const std::string rules = given.Text("rules");
    const std::string manifest = ManifestOf(given.Text("names"));
    LintExample example{
        .mesh = "fsdp:2,tp:2", .rules = rules, .manifest = manifest};
    TestTarget target = Build(example);
    REQUIRE_MESSAGE(target.compiled, target.errors);
    Findings usage;
    const auto selection = Selection::Make({}, /*preview=*/true, usage);
    REQUIRE(selection.has_value());
    Facts facts(target.inputs);
    const LintResult result = RunLints(facts, *selection, {});
    const std::vector<RuleFix> fixes = FixesOf(facts, result.findings);
    std::string out;
    for (const RuleFix& fix : fixes) {
      out += "### " + std::string(fix.code->name) +
             (fix.by_hand ? ", by hand\n" : "\n");
      out += Fixed(fix.source->text(), {&fix, 1});
      if (!out.ends_with('\n')) out += "\n";
    }
    for (size_t i = 0; i < fixes.size(); ++i) {
      for (size_t j = i + 1; j < fixes.size(); ++j) {
        CHECK(Meet(fixes[i], fixes[j]) == Meet(fixes[j], fixes[i]));
        if (!Meet(fixes[i], fixes[j])) continue;
        out += "### " + std::string(fixes[i].code->name) + " meets " +
               std::string(fixes[j].code->name) + "\n";
      }
    }
    return out.empty() ? "no fix\n" : out;
  });
}

TEST_CASE("a text that is inserted where another is removed comes before it") {
  RuleFix removal, insertion;
  removal.edits = {{2, 3, ""}};
  insertion.edits = {{2, 2, "(?:"}, {5, 5, ")$"}};
  CHECK(Fixed("m:^ab\n", std::vector<RuleFix>{removal, insertion}) ==
        "m:(?:ab)$\n");
  CHECK(Fixed("m:^ab\n", std::vector<RuleFix>{insertion, removal}) ==
        "m:(?:ab)$\n");
}

}  // namespace
}  // namespace shardc
