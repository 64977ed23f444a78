// Checks the section `budget` of a target, such as
//
//   budget: {memory: 70GiB, growth: 5%, sent: 12GiB}
//
// The memory and the bytes sent are those of the step that the target describes
// (batch, seq, remat, optimizer, zero). A figure that is not known does not pass:
// the finding names a fact that would settle it.
#include "cli/target_budget.h"

#include <string>
#include <utility>

#include "cli/committed_plan.h"
#include "cli/cost_flags.h"
#include "cli/program_traffic.h"
#include "cost/inputs.h"
#include "source/audit_code.h"
#include "source/json.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

Finding Make(const Place& place, std::string message, std::string help) {
  Finding out;
  out.code = &code::kOverStepBudget;
  out.level = Level::kError;
  out.place = place;
  out.message = std::move(message);
  out.help = std::move(help);
  return out;
}

// Returns the finding for bytes that are not known.
Finding Unknown(const Place& place, const std::string& what,
                const std::vector<NotKnown>& facts) {
  return Make(place,
              what + " is not known, so its budget cannot be checked" +
                  (facts.empty() ? "" : ": " + facts.front().what),
              "`shardc cost` lists what is not known; a step needs `model`, "
              "`batch` and `seq` in the target");
}

void CheckMemory(const StepBudget& budget, const cost::Memory& memory,
                 FindingSink& out) {
  const auto fits = memory.Fits();
  if (!fits) {
    out.push_back(Unknown(budget.memory_place, "the memory of a step",
                          memory.unknown));
    return;
  }
  if (*fits) return;
  const int64_t bytes =
      memory.taken ? memory.taken->most : memory.most.total.value_or(INT64_MAX);
  out.push_back(Make(budget.memory_place,
                     std::string("a step takes ") +
                         (memory.taken ? "up to " : "") + BytesText(bytes) +
                         " of a device's memory, and the budget is " +
                         BytesText(*budget.memory),
                     "`shardc cost` lists what holds the memory"));
}

void CheckSent(const StepBudget& budget, const cost::Communication& sent,
               FindingSink& out) {
  const int64_t bytes = sent.Sent();
  if (bytes > *budget.sent) {
    out.push_back(Make(budget.sent_place,
                       "a step sends " + BytesText(bytes) +
                           " per device, and the budget is " +
                           BytesText(*budget.sent),
                       "`shardc cost` lists what is sent, by collective"));
  } else if (!sent.roles_known || !sent.unknown.empty()) {
    out.push_back(
        Unknown(budget.sent_place, "what a step sends", sent.unknown));
  }
}

// Compares the bytes of parameters per device with those of the committed plan.
void CheckGrowth(const Target& target, const Plan& plan, FindingSink& out,
                 Findings& errors) {
  if (target.plan.empty()) return;
  const SourceRef source = ReadCommittedPlan(target, errors);
  if (source == nullptr) return;
  const auto document = JsonDocument::Parse(source, errors);
  if (document == nullptr) return;
  const auto summary = document->root().Find("summary");
  const auto member = summary && summary->IsObject()
                          ? summary->Find("bytes_per_device")
                          : std::optional<JsonValue>();
  const auto before = member && member->kind() == JsonKind::kInteger
                          ? std::optional(member->integer())
                          : std::nullopt;
  const auto& after = plan.summary.bytes_per_device;
  if (!before || !after) return;
  const StepBudget& budget = target.budget;
  const auto most = static_cast<double>(*before) * (1 + *budget.growth);
  if (static_cast<double>(*after) <= most) return;
  out.push_back(Make(budget.growth_place,
                     "parameters take " + BytesText(*after) +
                         " per device, and " + BytesText(*before) +
                         " in the committed plan, which is more than the "
                         "budget of growth",
                     "look at what changed; if it is intended, `shardc plan "
                     "--write-locked` commits the plan"));
}

}  // namespace

FindingSink StepBudgetFindings(const Target& target, const Compiled& compiled,
                               const std::optional<ModelConfig>& config,
                               const Selection& selection, Findings& errors) {
  FindingSink out;
  const StepBudget& budget = target.budget;
  if (!selection.Selects(code::kOverStepBudget)) return out;
  if (budget.growth) CheckGrowth(target, compiled.plan, out, errors);
  if (!budget.memory && !budget.sent) return out;
  const Mode mode = target.modes.empty() ? Mode::kTrain : target.modes.front();
  Target limited = target;
  limited.memory_bytes = budget.memory;
  const auto settings = CostSettings({}, limited, mode, errors);
  if (!settings) return out;
  const auto work = cost::MakeCostInputs(compiled, config, mode);
  const cost::Report report = CostOf(&compiled, config, work, *settings);
  if (budget.memory) CheckMemory(budget, report.memory, out);
  if (budget.sent) CheckSent(budget, report.communication, out);
  return out;
}

}  // namespace shardc::cli
