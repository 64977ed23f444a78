// Computes the cost of pipeline stages for pictures and the report page. A
// compiled plan has its stages in memory. A plan file only states which layers
// are in which stage, and the name of the schedule. The stages are made again
// from these. For example:
//
//   show memory --plan staged.json --batch 64 --seq 4096
//     ->  a bar for each rank, with the memory that `cost --plan` prints
#include "cli/staged_costs.h"

#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/pictured.h"
#include "cli/plan_findings.h"
#include "cost/stage_inputs.h"
#include "plan/staged_plan.h"

namespace shardc::cli {
namespace {

bool CheckSizes(const cost::Settings& settings, Findings& findings) {
  if (settings.batch && settings.length) return true;
  findings.Add(code::kUsage, {},
               "the memory of each rank of the pipeline needs a batch and a "
               "length",
               "give `--batch` and `--seq`");
  return false;
}

}  // namespace

std::optional<cost::CostInputs> CompiledWork(const StagedTarget& target,
                                             Mode mode, Findings& findings) {
  const Compiled& compiled = *target.compiled;
  Findings wrong = PlanFindings(compiled);
  std::optional<cost::CostInputs> work;
  if (!wrong.HasErrors()) {
    work = cost::MakeCostInputs(compiled, target.model, mode);
    wrong.Append(HeadFindings(compiled, *work));
  }
  if (wrong.HasErrors()) work.reset();
  findings.Append(std::move(wrong));
  return work;
}

std::optional<cost::PipelineCost> CostOfStages(const StageFlags& flags,
                                               const StagedTarget& target,
                                               const cost::CostInputs& work,
                                               const cost::Settings& settings,
                                               const StageSizes& sizes,
                                               Findings& findings) {
  const auto planned = StagesOfCommand(flags, target.stages(), *target.compiled,
                                       target.config(), sizes, findings);
  if (planned == nullptr) return std::nullopt;
  return cost::PipelineCostOf(*target.compiled, work, settings, *planned,
                              flags.Exposed(), findings);
}

std::optional<cost::PipelineCost> StagedCostOf(const Planned& planned,
                                               const cost::Settings& settings,
                                               Findings& findings) {
  if (!CheckSizes(settings, findings)) return std::nullopt;
  if (planned.compiled != nullptr) {
    return cost::PipelineCostOf(*planned.compiled, planned.WorkIn(Mode::kTrain),
                                settings, *planned.compiled->stages, false,
                                findings);
  }
  const auto staged = StagedPlanOf(*planned.view, {}, findings);
  if (!staged) return std::nullopt;
  return cost::PipelineCostOf(
      *staged, cost::StagedPlanInputs(*planned.view, planned.model), settings,
      false, findings);
}

MemoryBars BarsOfRanks(const cost::PipelineCost& cost, int64_t devices) {
  MemoryBars out = BarsOf({});
  out.devices = devices;
  out.of_ranks = true;
  out.budget = cost.capacity;
  for (const NotKnown& fact : cost.Unknown()) {
    out.unknown.push_back(NotKnownText(fact));
  }
  for (size_t r = 0; r < cost.ranks.size(); ++r) {
    MemoryBar bar;
    bar.name = "rank " + std::to_string(r);
    bar.at_least = !out.unknown.empty();
    for (const auto& bytes : cost.ranks[r].held.by) {
      bar.parts.push_back(bytes.value_or(0));
    }
    out.bars.push_back(std::move(bar));
  }
  return out;
}

}  // namespace shardc::cli
