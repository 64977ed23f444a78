// Checks the section `budget` of a target. The figures are those that `cost`
// prints for the target. A figure that is not known does not pass: the finding
// names the facts that would settle it. For example:
//
//   budget: {memory: 70GiB, growth: 5%}
//     ->  the memory of a step is 71.2 GiB per device, and the budget is
//         70 GiB; most of it is activations (30 GiB), optimizer (22 GiB) ...
//     ->  the memory of a step grew by 70.0 %, from 41.9 GiB to 71.2 GiB ...
#include "cli/target_budget.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cli/committed_plan.h"
#include "cli/cost_flags.h"
#include "cli/inputs.h"
#include "cli/program_traffic.h"
#include "cli/staged_costs.h"
#include "emit/costs/figures.h"
#include "source/audit_code.h"
#include "source/file.h"
#include "source/json.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

using cost::BudgetFigure;
using cost::StepFigure;
using cost::StepFigures;

constexpr std::array<std::string_view, cost::kBudgetFigureNames.size()>
    kSubjects = {"the memory of a step", "what a step sends",
                 "the time of a step"};

std::string ValueText(BudgetFigure name, double value) {
  if (name == BudgetFigure::kTime) return SecondsText(value);
  // A sum of bytes is saturated at 2^63 - 1, which a double rounds up.
  constexpr double kMost = 9.2e18;
  return BytesText(std::llround(std::min(value, kMost)));
}

std::string PerDevice(BudgetFigure name) {
  return name == BudgetFigure::kTime ? "" : " per device";
}

// Returns the largest parts: "activations (3 GiB) and optimizer (2 GiB)".
std::string PartsText(BudgetFigure name, std::vector<cost::FigurePart> parts) {
  constexpr size_t kListed = 3;
  parts.resize(std::min(parts.size(), kListed));
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += i + 1 == parts.size() ? " and " : ", ";
    out += parts[i].first + " (" + ValueText(name, parts[i].second) + ")";
  }
  return out;
}

Finding Make(const Place& place, std::string message, std::string help) {
  Finding out;
  out.code = &code::kOverStepBudget;
  out.level = Level::kError;
  out.place = place;
  out.message = std::move(message);
  out.help = std::move(help);
  return out;
}

// Returns the finding that a limit cannot be checked, because the figure is not
// known or only a lower bound.
Finding Unknown(BudgetFigure name, const StepFigure& figure,
                const Place& place) {
  const std::string subject(kSubjects[static_cast<size_t>(name)]);
  std::string message =
      figure.value
          ? subject + " is at least " + ValueText(name, *figure.value) +
                PerDevice(name) +
                ", and how much more is not known, so the budget is not checked"
          : subject + " is not known, so its budget is not checked";
  std::string settled;
  for (const NotKnown& fact : figure.unknown) {
    message +=
        (&fact == figure.unknown.data() ? ": " : "; ") + NotKnownText(fact);
    if (!fact.settled_by.empty() &&
        settled.find(fact.settled_by) == std::string::npos) {
      settled += (settled.empty() ? "" : ", and ") + fact.settled_by;
    }
  }
  return Make(place, std::move(message),
              settled.empty()
                  ? "give `model`, `batch` and `seq` in the target; `shardc "
                    "cost` lists what is not known"
                  : "give " + settled + ", by a key of the target");
}

void CheckLimit(BudgetFigure name, const StepFigure& figure,
                const std::optional<BudgetLimit>& limit, FindingSink& out) {
  if (!limit) return;
  if (!figure.value || (*figure.value <= limit->value && figure.at_least)) {
    out.push_back({Unknown(name, figure, limit->place)});
    return;
  }
  if (*figure.value <= limit->value) return;
  const std::string parts = PartsText(name, cost::LargestParts(figure));
  out.push_back({Make(
      limit->place,
      std::string(kSubjects[static_cast<size_t>(name)]) + " is " +
          (figure.at_least ? "at least " : "") +
          ValueText(name, *figure.value) + PerDevice(name) +
          ", and the budget is " + ValueText(name, limit->value) +
          (parts.empty() ? "" : "; most of it is " + parts),
      "`shardc cost` lists the parts; change the rules or the settings of the "
      "step, or raise the budget")});
}

// Returns whether growth of the figure is limited. Without rates of the device,
// neither the committed nor the present figures have a time.
bool HasGrowth(BudgetFigure name, const StepFigure& before,
               const StepFigure& now) {
  return name != BudgetFigure::kTime || before.value || now.value;
}

void CheckGrowth(BudgetFigure name, const StepFigure& before,
                 const StepFigure& now, const BudgetLimit& limit,
                 FindingSink& out) {
  if (!HasGrowth(name, before, now)) return;
  const std::string subject(kSubjects[static_cast<size_t>(name)]);
  if (!now.IsKnown()) {
    out.push_back({Unknown(name, now, limit.place)});
    return;
  }
  if (!before.IsKnown()) {
    out.push_back({Make(
        limit.place,
        subject + " was not known when the plan was committed, so its growth "
                  "is not checked",
        "look at the figure that `shardc cost` prints, then run `shardc plan "
        "--write-locked`")});
    return;
  }
  if (*now.value <= *before.value * (1 + limit.value)) return;
  const std::string parts = PartsText(name, cost::LargestParts(now, &before));
  const std::string by =
      *before.value > 0 ? " by " + PercentText(*now.value / *before.value - 1)
                        : "";
  out.push_back({Make(
      limit.place,
      subject + " grew" + by + ", from " + ValueText(name, *before.value) +
          " to " + ValueText(name, *now.value) + PerDevice(name) +
          ", and the budget allows " + PercentText(limit.value) +
          (parts.empty() ? "" : "; most of the growth is " + parts),
      "if the growth is intended, `shardc plan --write-locked` commits the new "
      "figures")});
}

// Returns the fingerprint that a plan states, or an empty text. The member is
// one of the first of a plan, so the plan need not be parsed.
std::string_view FingerprintIn(std::string_view plan) {
  constexpr std::string_view kKey = "\"fingerprint\"";
  constexpr std::string_view kPrefix = "\"sha256:";
  const size_t key = plan.find(kKey);
  if (key == std::string_view::npos) return {};
  const size_t begin = plan.find(kPrefix, key);
  if (begin == std::string_view::npos) return {};
  const size_t end = plan.find('"', begin + 1);
  if (end == std::string_view::npos) return {};
  return plan.substr(begin + 1, end - begin - 1);
}

// Reads the figures that are committed next to the target's plan. Returns
// nullopt after a finding, for example if they were written with another plan.
std::optional<cost::CostLock> ReadTargetCost(const Target& target,
                                             Findings& findings) {
  const std::string path = CostLockPath(target.plan);
  constexpr std::string_view kWrite = "run `shardc plan --write-locked`";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    findings.Add(code::kMissing, target.budget.growth->place,
                 "the committed figures `" + path +
                     "`, with which `growth` compares, are not there",
                 std::string(kWrite));
    return std::nullopt;
  }
  const SourceRef plan = ReadCommittedPlan(target, findings);
  const SourceRef source = ReadSource(path, findings);
  if (plan == nullptr || source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  auto lock = cost::ReadCostLock(*document, findings);
  if (!lock) return std::nullopt;
  const bool same_plan = lock->plan == FingerprintIn(plan->text());
  if (same_plan && lock->mode == target.budget.mode) return lock;
  findings.Add(
      code::kSchema,
      document->root().Find(same_plan ? "mode" : "plan")->place(),
      same_plan ? "these figures are of another mode than the budget of the "
                  "target"
                : "these figures were not written together with the committed "
                  "plan `" +
                      target.plan + "`",
      std::string(kWrite) + ", which writes both");
  return std::nullopt;
}

}  // namespace

std::string CostLockPath(const std::string& plan) {
  std::string_view stem = plan;
  for (const std::string_view suffix : {".json", ".plan"}) {
    if (stem.ends_with(suffix)) stem.remove_suffix(suffix.size());
  }
  return std::string(stem) + ".cost.json";
}

std::optional<StepFigures> FiguresOfTarget(const Target& target,
                                           const StagedTarget& compiled,
                                           Findings& findings) {
  const Mode mode = target.budget.mode;
  if (!CheckMode(compiled.compiled->plan.modes, mode, findings)) {
    return std::nullopt;
  }
  const auto settings = CostSettings({}, target, mode, findings);
  const auto work = CompiledWork(compiled, mode, findings);
  if (!settings || !work) return std::nullopt;
  if (!compiled.declared) {
    return cost::FiguresOf(
        CostOf(compiled.compiled.get(), compiled.model, *work, *settings));
  }
  StageSizes sizes = {mode, settings->batch, settings->length, {}};
  if (!WithStepOptions({}, target, mode).microbatches.empty()) {
    sizes.microbatches = settings->microbatches;
  }
  const auto cost =
      CostOfStages({}, compiled, *work, *settings, sizes, findings);
  if (!cost) return std::nullopt;
  return cost::FiguresOf(*cost, *work);
}

FindingSink CheckStepBudget(const Target& target, const StagedTarget& compiled,
                            bool locked, const Selection& selection,
                            Findings& errors) {
  FindingSink out;
  const StepBudget& budget = target.budget;
  // Errors in step options are reported even if no budget needs the options.
  if (!CostSettings({}, target, budget.mode, errors)) return out;
  if (budget.IsEmpty() || !selection.Selects(code::kOverStepBudget)) return out;
  Findings wrong;
  auto figures = FiguresOfTarget(target, compiled, wrong);
  errors.NoteReadsOf(wrong);
  if (!figures) {
    // The plan or the stages have an error, which other findings report too.
    figures.emplace();
    for (StepFigure& figure : *figures) {
      for (const Finding& one : wrong.all()) {
        figure.unknown.push_back({.what = one.message});
      }
    }
  }
  const auto& [memory, sent, time] = *figures;
  CheckLimit(BudgetFigure::kMemory, memory, budget.memory, out);
  CheckLimit(BudgetFigure::kSent, sent, budget.sent, out);
  CheckLimit(BudgetFigure::kTime, time, budget.time, out);
  std::error_code error;
  if (!budget.growth ||
      (!locked && !std::filesystem::exists(CostLockPath(target.plan), error))) {
    return out;
  }
  const auto before = ReadTargetCost(target, errors);
  if (!before) return out;
  for (size_t i = 0; i < figures->size(); ++i) {
    CheckGrowth(static_cast<BudgetFigure>(i), before->figures[i], (*figures)[i],
                *budget.growth, out);
  }
  return out;
}

std::optional<std::vector<std::string>> FigureChanges(const Target& target,
                                                      const StepFigures& now,
                                                      Findings& findings) {
  const auto before = ReadTargetCost(target, findings);
  if (!before) return std::nullopt;
  std::vector<std::string> out;
  for (size_t i = 0; i < now.size(); ++i) {
    const auto name = static_cast<BudgetFigure>(i);
    const auto text = [&](const StepFigure& one) {
      return one.value ? (one.at_least ? "at least " : "") +
                             ValueText(name, *one.value)
                       : std::string("not known");
    };
    const std::string from = text(before->figures[i]), to = text(now[i]);
    if (from != to) {
      out.push_back(std::string(kSubjects[i]) + ": " + from + " -> " + to +
                    PerDevice(name));
    }
  }
  return out;
}

}  // namespace shardc::cli
