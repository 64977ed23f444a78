// `shardc report`: writes a plan as one HTML page. The contents are gathered
// first, and then written in one pass:
//
//   shardc report --target llama3-8b-64 --base main.plan.json -o report.html
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/cost_flags.h"
#include "cli/lint_target.h"
#include "cli/output.h"
#include "cli/pictured.h"
#include "cli/plan_findings.h"
#include "cli/plan_table.h"
#include "cli/program_traffic.h"
#include "cli/reported_program.h"
#include "cli/schedule_table.h"
#include "cli/staged_costs.h"
#include "cli/verified.h"
#include "cli/version.h"
#include "cost/report.h"
#include "emit/report/report.h"
#include "emit/report/schedule_page.h"
#include "picture/fold.h"
#include "plan/difference/plan_difference.h"
#include "plan/planned_stages.h"
#include "schedule/schedules.h"
#include "source/after_last.h"
#include "source/index.h"

namespace shardc::cli {
namespace {

struct ReportCommand {
  CostFlags flags;
  std::string plan, base, output;
  ProgramFlags program;
  Strings verified;
  bool allow_edited = false;
};

// Returns the file name of a path, such as `llama.plan.json`. The page must not
// show the names of directories.
std::string FileName(const std::string& path) {
  return std::string(AfterLast(path, '/'));
}

std::string TitleOf(const ReportCommand& command, const Target& target,
                    const Planned& planned) {
  if (!target.name.empty()) return target.name;
  if (planned.compiled == nullptr) return FileName(command.plan);
  const std::string& model = planned.compiled->manifest.model;
  const std::string mesh =
      std::to_string(planned.mesh().devices) +
      (planned.mesh().devices == 1 ? " device" : " devices");
  return (model.empty() ? FileName(target.manifest) : model) + " on " + mesh;
}

// The data for the page. `page` has pointers to the other members.
struct Gathered {
  std::unique_ptr<const Planned> planned;
  std::optional<picture::FoldedPlan> folded, base_folded;
  std::optional<PlanTable> base;
  std::optional<PlanDifference> diff;
  Findings findings;
  std::unique_ptr<const ReportedProgram> program;
  bool failed = false;  // whether verification or the program's audit failed
  report::Input page;
};

std::optional<PlanDifference> CompareWithBase(const Gathered& all,
                                              Findings& findings) {
  const Planned& planned = *all.planned;
  if (planned.compiled == nullptr) {
    return ComparePlans(*all.base, planned.table, findings);
  }
  const auto table = TableOf(*planned.compiled, findings);
  if (!table) return std::nullopt;
  return ComparePlans(*all.base, *table, findings);
}

bool GatherBase(const ReportCommand& command, Gathered& to,
                Findings& findings) {
  if (command.base.empty()) return true;
  to.base =
      ReadTable(command.base, EditedPlanOf(command.allow_edited), findings);
  if (!to.base) return false;
  to.base_folded.emplace(*to.base);
  to.diff = CompareWithBase(to, findings);
  if (!to.diff) return false;
  to.page.base =
      report::Base{FileName(command.base), &*to.base_folded, &*to.diff};
  return true;
}

// Adds the findings that `check` would report for the inputs and for the
// target's program with the project's settings. For a plan file, adds nothing.
// Returns false after a finding about an option.
bool GatherFindings(const ReportCommand& command, const Target& target,
                    Gathered& to, Findings& findings) {
  if (to.planned->compiled == nullptr) return true;
  LintFlags flags;
  if (!command.flags.memory.empty()) {
    flags.memory = ParseBytes("--memory", command.flags.memory, findings);
    if (!flags.memory) return false;
  }
  // The lints must use the same sizes of the step as the page's costs.
  const auto settings =
      CostSettings(command.flags, target, Mode::kTrain, findings);
  if (!settings) return false;
  flags.batch = settings->batch;
  flags.length = settings->length;
  flags.kv_length = settings->kv_length;
  flags.lists_names = false;  // the page lists none of them
  const auto result = LintBySettings(
      target, *to.planned->compiled, to.planned->model, flags,
      ProjectLintSettings(command.flags.inputs.asked, findings), findings,
      to.program == nullptr ? FindingSink{} : to.program->over_budget);
  if (!result) return true;
  for (const Finding& finding : result->findings) to.findings.Add(finding);
  to.findings.Sort();
  to.page.checked = true;
  to.page.findings = to.findings.all();
  to.page.repository = Repository::Find("");
  return true;
}

// Adds the pipeline schedule of a compiled plan, unless it has too many tasks
// to draw. For a plan file nothing is added, because it does not contain the
// table of its schedule.
void AddSchedule(Gathered& to) {
  if (to.planned->compiled == nullptr) return;
  const auto& stages = to.planned->compiled->stages;
  if (stages == nullptr) return;
  const schedule::Table& table = stages->table;
  const schedule::Extent extent{table.ranks(), table.stages / table.ranks(),
                                table.microbatches};
  const int64_t tasks = schedule::TaskCount(extent);
  if (tasks > static_cast<int64_t>(report::kMostDrawnTasks)) return;
  schedule::Times times;
  times.stages.resize(AsIndex(table.stages));
  to.page.schedule = MakeScheduleReport(table, times);
}

// Adds the costs of each rank of a pipeline, if the batch and the length of a
// step are known. Returns false after a finding.
bool AddRanks(const ReportCommand& command, const Target& target, Gathered& to,
              Findings& findings) {
  const auto settings =
      CostSettings(command.flags, target, Mode::kTrain, findings);
  if (!settings) return false;
  if (!settings->batch || !settings->length) return true;
  auto cost = StagedCostOf(*to.planned, *settings, findings);
  if (!cost) return false;
  to.page.costs = cost::ReportsOfMemory(*cost, to.planned->mesh());
  to.page.pipeline = std::move(*cost);
  return true;
}

bool GatherCosts(const ReportCommand& command, const Target& target,
                 Gathered& to, Findings& findings) {
  if (to.planned->table.classes.plan.stages) {
    AddSchedule(to);
    return AddRanks(command, target, to, findings);
  }
  for (Mode mode : to.planned->table.classes.plan.modes) {
    const auto settings = CostSettings(command.flags, target, mode, findings);
    if (!settings) return false;
    to.page.costs.push_back(CostOf(to.planned->compiled.get(),
                                   to.planned->model, to.planned->WorkIn(mode),
                                   *settings));
    const bool sized = settings->batch || settings->kv_length;
    if (mode == Mode::kTrain || !sized || !to.planned->model) continue;
    auto cache = CacheIn(*to.planned, *settings, mode);
    if (!cache) continue;
    auto& caches = to.page.caches;
    const auto same = std::find_if(
        caches.begin(), caches.end(),
        [&](const auto& one) { return one.input.spec == cache->input.spec; });
    if (same == caches.end()) {
      caches.push_back(
          {{mode}, std::move(cache->title), std::move(cache->input)});
    } else {
      same->modes.push_back(mode);
    }
  }
  return true;
}

bool GatherProgram(const ReportCommand& command, const Target& target,
                   Gathered& to, Findings& findings) {
  const auto selection =
      Selection::Make(ProjectLintSettings(command.flags.inputs.asked, findings),
                      false, findings);
  if (!selection ||
      !ReadReportedProgram(command.program, command.flags, target, *to.planned,
                           *selection, to.program, findings)) {
    return false;
  }
  if (to.program == nullptr) return true;
  to.page.program = to.program->ForPage();
  to.page.repository = Repository::Find("");
  to.failed = to.failed || to.program->Fails(*selection);
  return true;
}

bool GatherVerified(const ReportCommand& command, Gathered& to,
                    Findings& findings) {
  bool good = true;
  for (const std::string& path : command.verified) {
    auto one = ReadVerified(path, to.planned->mesh(), findings);
    good = good && one.has_value();
    if (!one) continue;
    to.failed = to.failed || one->failed;
    std::move(one->tables.begin(), one->tables.end(),
              std::back_inserter(to.page.tables));
  }
  return good;
}

int RunReport(const ReportCommand& command, const Common& common,
              Findings& findings) {
  InputFlags inputs = command.flags.inputs;
  // With `--plan`, TargetOrPlan refuses `--project`, because a plan file needs
  // no other inputs. A program is an exception: the project's settings
  // determine the levels (error, warning or note) of the findings about it.
  // `--project` is therefore removed here.
  if (!command.plan.empty() && !command.program.program.empty()) {
    inputs.asked.project.clear();
  }
  const auto target = TargetOrPlan(inputs, command.plan, findings);
  if (!target) return kFailed;
  bool found = false;
  Gathered all;
  all.planned = LoadPlanned(command.flags.inputs, command.plan,
                            EditedPlanOf(command.allow_edited), *target, common,
                            found, findings);
  if (all.planned == nullptr) return found ? kFound : kFailed;
  if (!command.plan.empty() &&
      HasIllegalSpec(all.planned->table.classes.plan, findings)) {
    return kFound;
  }
  all.folded.emplace(all.planned->table);
  all.page.plan = &*all.folded;
  all.page.title = TitleOf(command, *target, *all.planned);
  all.page.made_from = FileName(command.plan);
  all.page.version = kVersion;
  all.page.coverage = CoverageIn(*all.planned, *all.folded);
  if (!GatherBase(command, all, findings) ||
      !GatherProgram(command, *target, all, findings) ||
      !GatherFindings(command, *target, all, findings) ||
      !GatherCosts(command, *target, all, findings) ||
      !GatherVerified(command, all, findings)) {
    return findings.HasErrors() ? StageStatus(findings) : kFailed;
  }
  if (!PutResult(report::ReportHtml(all.page), command.output, findings)) {
    return kFailed;
  }
  const bool over = std::any_of(all.page.costs.begin(), all.page.costs.end(),
                                [](const cost::Report& one) {
                                  return !one.memory.Fits().value_or(true);
                                });
  return over || all.failed || all.findings.HasErrors() ? kFound : kDone;
}

Options OptionsOf(ReportCommand& command) {
  Options options = {
      {.name = "--plan",
       .to = &command.plan,
       .value = "FILE",
       .help = "plan file to use instead of the inputs; then no findings are "
               "shown"},
      {.name = "--base",
       .to = &command.base,
       .value = "FILE",
       .help = "plan file to compare with, such as that of the main branch"},
      AllowEditedOption(&command.allow_edited),
      {.name = "--verified",
       .to = &command.verified,
       .value = "FILE",
       .help = "output of `shardc verify --format json` for the same mesh, for "
               "attention or steps; may be repeated"},
      {.name = "--program",
       .to = &command.program.program,
       .value = "FILE",
       .help =
           "text of the compiled program of the step, as for `shardc audit` "
           "(default: the target's, if it has been compiled)"},
      {.name = "--step",
       .to = &command.program.step,
       .value = "FILE",
       .help = "step program (`verify step --format json`) to compare the "
               "compiled program with"}};
  Options costs = OptionsOfCost(command.flags);
  for (Option& option : costs) {
    if (option.name != "--mode") continue;
    option.help =
        "mode of the step of `--program`: train, prefill, decode or "
        "insert (default: train)";
  }
  Append(options, std::move(costs));
  Append(options,
         {OutputOption(&command.output,
                       "file to write the page to (default: stdout)")});
  return options;
}

}  // namespace

Declared DeclareReport() { return Declare(OptionsOf, RunReport); }

}  // namespace shardc::cli
