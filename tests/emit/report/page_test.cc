// Compares the sections of pages of small plans with
// testdata/tables/emit_pages.txt.
#include "emit/report/page.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "audit/drift.h"
#include "cost/program.h"
#include "cost/report.h"
#include "emit/compared_step.h"
#include "emit/emit.h"
#include "emit/html_rows.h"
#include "emit/inputs.h"
#include "emit/report/report.h"
#include "hlo/program.h"
#include "lint/rules/all.h"
#include "picture/fold.h"
#include "plan/difference/plan_difference.h"
#include "plan/plan_table.h"
#include "plan/planned_stages.h"
#include "schedule/schedules.h"
#include "source/wording.h"
#include "tables.h"

namespace shardc::report {
namespace {

// Returns the sections that the case names; `header` is the page's own.
std::string Sections(const std::string& page, const std::string& names) {
  std::istringstream in(names);
  std::string out;
  for (std::string name; in >> name;) {
    const std::string tag =
        name == "header" || name == "nav" || name == "footer"
            ? name
            : "section id=" + name;
    const size_t begin = page.find("<" + tag);
    REQUIRE_MESSAGE(begin != std::string::npos, name);
    const size_t end = page.find("</" + tag.substr(0, tag.find(' ')), begin);
    out += ByRow(std::string_view(page).substr(begin, end - begin));
  }
  return out;
}

std::optional<PlanTable> TableOf(const Inputs& inputs) {
  Findings findings;
  auto out =
      ReadPlanTable(MakeSource("plan.json", TextOf([&](Sink& to) {
                                 WritePlanJson(inputs.compiled->plan, {}, to);
                               })),
                    EditedPlan::kAllowed, findings);
  REQUIRE(out.has_value());
  return out;
}

Finding Found(const Code& code, std::string message, Place place,
              std::string help) {
  Finding out;
  out.code = &code;
  out.level = code.level;
  out.message = std::move(message);
  out.place = std::move(place);
  out.help = std::move(help);
  return out;
}

std::vector<Finding> FindingsOf(const TableCase& given) {
  if (given.Find("findings") == nullptr) return {};
  const SourceRef rules =
      MakeSource("rules.yaml", "version: 1\nrules:\n  - {match: 'up'}\n");
  std::vector<Finding> out;
  out.push_back(Found(kAxisOfSizeOne.code, "the `dp` axis", {}, ""));
  out.push_back(Found(code::kSchema, "bad <b>", {rules, 21, 26}, "write `x`"));
  out.push_back(Found(kDeadRule.code, "no `match`",
                      {rules, Place::kEntireFile, Place::kEntireFile},
                      "delete it"));
  out.back().labels = {{{rules, 0, 10}, "the version"}};
  out.push_back(Found(kDeadRule.code, "no match", {rules, 11, 16}, ""));
  return out;
}

// The objects that the page's input refers to.
struct Gathered {
  std::optional<PlanTable> table, base_table;
  std::optional<picture::FoldedPlan> plan, base;
  std::optional<PlanDifference> diff;
  std::vector<Finding> findings;
  std::optional<hlo::Program> program;
  std::optional<audit::Report> audited;
  AuditText compared;
  Input page;
};

void AddBase(const TableCase& given, Gathered& to) {
  if (given.Find("base rules") == nullptr) return;
  const Inputs inputs(given, "base ");
  REQUIRE_MESSAGE(inputs.compiled, inputs.Errors());
  to.base_table = TableOf(inputs);
  to.base.emplace(*to.base_table);
  Findings findings;
  to.diff = ComparePlans(*to.base_table, *to.table, findings);
  REQUIRE(to.diff.has_value());
  to.page.base = Base{"base.plan.json", &*to.base, &*to.diff};
}

void AddCosts(const TableCase& given, const Inputs& inputs, Gathered& to) {
  std::istringstream modes(given.Text("costs of"));
  for (std::string name; modes >> name;) {
    const Mode mode = ParseMode(name).value();
    to.page.costs.push_back(cost::ReportOf(
        cost::MakeCostInputs(*inputs.compiled, inputs.config, mode),
        SettingsOf(given)));
    if (mode == Mode::kTrain || !inputs.config) continue;
    Cache cache{{mode}, "key (" + name + ")", {}};
    cache.input.mesh = inputs.compiled->mesh;
    cache.input.spec = {{"dp"}, {}, {"tp"}, {}};
    cache.input.dims = {{.name = "batch", .size = 6, .axes = {}},
                        {.name = "length", .size = 40, .axes = {}},
                        {.name = "head", .size = 2, .axes = {}},
                        {.name = "dim", .size = 8, .axes = {}}};
    to.page.caches.push_back(std::move(cache));
  }
}

void AddSchedule(const Inputs& inputs, Gathered& to) {
  if (inputs.compiled->stages == nullptr) return;
  const schedule::Table& table = inputs.compiled->stages->table;
  schedule::Times times;
  times.stages.resize(static_cast<size_t>(table.stages));
  to.page.schedule = MakeScheduleReport(table, times);
}

void AddProgram(const TableCase& given, const Inputs& inputs, Gathered& to) {
  if (given.Find("program") == nullptr) return;
  Findings findings;
  to.program =
      hlo::ReadProgram(MakeSource("p.txt", given.Text("program")), findings);
  REQUIRE(to.program.has_value());
  const Mesh& mesh = inputs.compiled->mesh;
  to.audited =
      audit::Audit(*to.program, {&mesh, SettingsOf(given).profile}, findings);
  REQUIRE(to.audited.has_value());
  const audit::Planned planned[] = {{"w", {16, 4}, {{"tp"}, {}}},
                                    {"v", {16, 4}, {{"dp"}, {}}}};
  to.compared.drifts = audit::DriftsOf(*to.program, mesh, planned);
  if (given.Find("step") != nullptr) {
    to.compared.compared = ComparedStep(*to.audited);
  }
  to.page.program = Program{"p.txt", &*to.audited, &to.compared, to.findings};
}

std::string Result(const TableCase& given) {
  const Inputs inputs(given, "");
  REQUIRE_MESSAGE(inputs.compiled, inputs.Errors());
  Gathered all;
  all.table = TableOf(inputs);
  all.plan.emplace(*all.table);
  all.findings = FindingsOf(given);
  all.page.plan = &*all.plan;
  all.page.title = "small <1>";
  all.page.version = "1.2.3";
  all.page.made_from = given.Text("made from");
  all.page.checked = given.Find("unchecked") == nullptr;
  all.page.findings = all.findings;
  const auto errors =
      std::ranges::count(all.findings, Level::kError, &Finding::level);
  if (errors > 0) all.page.failures = {Counted(errors, "error")};
  all.page.coverage = picture::CoverageOf(*all.plan);
  // Let the first rule shadow the last one, which wins nothing.
  auto& rules = all.page.coverage.rules;
  if (const auto found = NumberOf(given, "found by the last rule")) {
    rules.back().found = *found;
    if (*found > 0) rules.back().shadowed_by = 0;
  }
  AddBase(given, all);
  AddCosts(given, inputs, all);
  AddSchedule(inputs, all);
  AddProgram(given, inputs, all);
  for (std::string& one : FailuresOf(all.page.costs)) {
    all.page.failures.push_back(std::move(one));
  }
  if (given.Find("verified") != nullptr) {
    all.page.tables = {{.title = "Steps",
                        .about = "of `verify`",
                        .heads = {"Case", "Error"},
                        .numbers = {false, true},
                        .rows = {{"a.b", "1.5"}, {"c<d", "2.5"}}}};
  }
  return inputs.Plain(Sections(ReportHtml(all.page), given.Text("sections")));
}

TEST_CASE("what the sections of a page have") {
  CheckTable("emit_pages.txt", Result);
}

}  // namespace
}  // namespace shardc::report
