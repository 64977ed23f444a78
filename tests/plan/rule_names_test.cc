#include "plan/plan_table.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "source/json.h"
#include "source/source.h"

namespace shardc {
namespace {

TEST_CASE("the name of a rule is its pattern, or differs by a number") {
  const std::vector<std::string_view> patterns = {
      "w", "b", "w", "w (2)", "w", "w (2)", "w (4)", "w"};
  const std::vector<std::string> expected = {
      "w", "b", "w (3)", "w (2)", "w (5)", "w (2) (2)", "w (4)", "w (6)"};
  const auto names = RuleNames(patterns);
  CHECK(names == expected);
  CHECK(std::set(names.begin(), names.end()).size() == names.size());
  CHECK(RuleNames({}).empty());
}

TEST_CASE("a parameter names its rule, or has the index of earlier versions") {
  const std::vector<std::string_view> patterns = {"w", "b", "w"};
  const RuleIndex index(patterns);
  Findings findings;
  const auto document = JsonDocument::Parse(
      MakeSource(
          "p",
          R"json(["w", "b", "w (2)", 2, "w (3)", "", 3, -1, 1.0, {}])json"),
      findings);
  REQUIRE(document != nullptr);
  const std::vector<int32_t> expected = {0, 1, 2, 2, -1, -1, -1, -1, -1, -1};
  size_t i = 0;
  for (const JsonValue rule : document->root().items()) {
    CAPTURE(i);
    CHECK(index.Find(rule).value_or(-1) == expected[i++]);
  }
}

}  // namespace
}  // namespace shardc
