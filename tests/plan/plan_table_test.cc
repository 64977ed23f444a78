#include "plan/plan_table.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "source/source.h"

namespace shardc {
namespace {

constexpr std::string_view kHead = R"({
  "schema": "shardc.plan/v1",
  "fingerprint": "sha256:ab",
  "mesh": {"axes": [{"name": "tp", "size": 4, "type": "auto"}], "devices": 4},
  "modes": ["train"],
  "rules": [{"match": "a"}, {"match": "b"}],
  "params": {
)";
constexpr std::string_view kTail = R"(  },
  "attention": {"train": {"query": ["tp", null]}}
}
)";
constexpr std::string_view kOne =
    R"({"shape": [8], "dtype": "F32", "spec": ["tp"], "rule": 0})";
constexpr std::string_view kTwo =
    R"({"shape": [8], "dtype": "F32", "spec": [], "rule": 1})";

std::string Line(std::string_view name, std::string_view value, bool last) {
  return "    \"" + std::string(name) + "\": " + std::string(value) +
         (last ? "\n" : ",\n");
}

std::string Plan(const std::string& lines) {
  return std::string(kHead) + lines + std::string(kTail);
}

// Checks that the table of parameters equals the result of the ordinary reader.
void CheckSame(const std::string& text, size_t classes) {
  CAPTURE(text);
  Findings findings, by_table;
  const SourceRef source = MakeSource("p", text);
  const auto document = JsonDocument::Parse(source, findings);
  const auto view = document == nullptr
                        ? std::nullopt
                        : ParsePlan(*document, EditedPlan::kAllowed, findings);
  const auto table = ReadPlanTable(source, EditedPlan::kAllowed, by_table);
  REQUIRE(table.has_value() == view.has_value());
  CHECK(findings.errors() == by_table.errors());
  if (!view) return;
  CHECK(table->classes.params.size() == classes);
  REQUIRE(table->names.size() == view->params.size());
  CHECK(table->classes.rules == view->rules);
  CHECK(table->classes.attention.size() == view->attention.size());
  for (size_t i = 0; i < table->names.size(); ++i) {
    const ReadParam& param = view->params[i];
    const uint32_t c = table->class_of[i];
    CHECK(table->names[i] == param.name);
    CHECK(table->classes.params[c].type == param.type);
    CHECK(table->classes.params[c].spec == param.spec);
    CHECK(table->classes.params[c].rule == param.rule);
  }
}

TEST_CASE("parameters with equal entries are one class") {
  CheckSame(Plan(Line("a.0", kOne, false) + Line("b", kTwo, false) +
                 Line("a.1", kOne, false) + Line("a.2", kOne, true)),
            2);
}

TEST_CASE(
    "a plan that has not one parameter a line is read by the ordinary reader") {
  const std::string one(kOne), two(kTwo);
  // Plans with escapes, several parameters on a line, one parameter on several
  // lines, another indentation, and none.
  CheckSame(Plan(Line("a\\u002e0", one, false) + Line("a.1", one, true)), 2);
  CheckSame(Plan("    \"a\": " + one + ", \"b\": " + one + "\n"), 2);
  CheckSame(Plan(Line("a", "{\"shape\": [8], \"x\": {}", false) +
                 Line("spec", "[]}", false) + Line("b", two, true)),
            2);
  CheckSame(Plan(Line("a", "{\"spec\": [], \"x\": {\"y\": 1}", false) +
                 Line("z", "{}}", false) +
                 Line("b", "{\"spec\": [], \"x\": {\"y\": 1}", false) +
                 Line("z", "{}}", true)),
            2);
  CheckSame(Plan("  \"a\": " + one + "\n"), 1);
  CheckSame(Plan(""), 0);
}

TEST_CASE("errors are those of the ordinary reader, at their places") {
  const std::string one(kOne);
  CheckSame(Plan(Line("a", one, false) + Line("a", one, true)), 0);
  CheckSame(Plan(Line("a", one, false)), 0);
  CheckSame(Plan(Line("a", one, true) + Line("b", one, true)), 0);
  CheckSame(Plan(Line("a", one, false) + Line("b", "{}", true)), 0);
  CheckSame(Plan(Line("a", R"({"spec": ["up"], "rule": 0})", true)), 0);
  CheckSame(Plan(Line("a", R"({"spec": [], "rule": 9})", true)), 0);
  CheckSame(Plan(Line("", one, true)), 1);
  Findings findings;
  const std::string text =
      Plan(Line("a.0", one, false) + Line("a.1", one, false) +
           Line("b", R"({"spec": ["up"], "rule": 0})", true));
  CHECK_FALSE(
      ReadPlanTable(MakeSource("p", text), EditedPlan::kAllowed, findings));
  REQUIRE(findings.all().size() == 1);
  const Place& place = findings.all()[0].place;
  CHECK(place.source->At(place.begin).line == 10);
}

}  // namespace
}  // namespace shardc
