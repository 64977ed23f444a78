// Reduces the cost of a pipeline to the figures by which `shardc fit` compares
// meshes. A pipeline fits if each of its ranks fits. The memory of the pipeline
// is therefore between two numbers: the largest lower estimate of all ranks,
// and the largest upper estimate of all ranks. For example:
//
//   rank 0 takes 40 to 52 GiB, rank 1 takes 44 to 50 GiB  ->  44 to 52 GiB
#include "cost/fit_stages.h"

#include <algorithm>

#include "cost/pipeline.h"
#include "plan/planned_stages.h"

namespace shardc::cost {
namespace {

// Returns the rank that is expected to take the most memory. If a component of
// any rank is unknown, returns the rank with the most known bytes.
const RankCost& FullestOf(const PipelineCost& cost) {
  if (const RankCost* const rank = cost.FullestRank()) return *rank;
  return *std::max_element(cost.ranks.begin(), cost.ranks.end(),
                           [](const RankCost& a, const RankCost& b) {
                             return a.held.total < b.held.total;
                           });
}

Memory MemoryOfRanks(const PipelineCost& cost) {
  Memory out;
  out.capacity = cost.capacity;
  out.most = FullestOf(cost).held;
  out.most.total = cost.Fullest();
  out.taken = FullestOf(cost).taken;
  out.unknown = cost.Unknown();
  for (const RankCost& rank : cost.ranks) {
    // The logits of a rank other than the fullest one may be unknown. The
    // logits of the pipeline are then unknown too.
    if (!rank.held.Of(Component::kLogits)) {
      out.most.by[static_cast<size_t>(Component::kLogits)].reset();
    }
  }
  for (const RankCost& rank : cost.ranks) {
    if (!out.taken || !rank.taken) {
      out.taken.reset();
      if (!out.most.total) {
        out.unknown.push_back(
            {.what =
                 "parameters: the manifest has no shape or dtype for some"});
      }
      break;
    }
    out.taken->least = std::max(out.taken->least, rank.taken->least);
    out.taken->most = std::max(out.taken->most, rank.taken->most);
  }
  return out;
}

}  // namespace

std::optional<StagedFit> StagedFitOf(const Compiled& compiled,
                                     const CostInputs& work,
                                     const Settings& settings,
                                     const StageRequest& request, bool exposed,
                                     Findings& findings) {
  const auto planned = DivideIntoStages(
      compiled, work.model ? &*work.model : nullptr, request, findings);
  if (!planned) return std::nullopt;
  const auto cost =
      PipelineCostOf(compiled, work, settings, *planned, exposed, findings);
  if (!cost) return std::nullopt;
  StagedFit out;
  out.memory = MemoryOfRanks(*cost);
  for (const RankCost& rank : cost->ranks) {
    out.communication =
        std::max(out.communication, CommunicationOf(*cost, rank).Sent());
  }
  out.stages.axis = cost->axis;
  out.stages.schedule = cost->table.name;
  out.stages.microbatches = cost->table.microbatches;
  for (const StageCost& stage : cost->stages) {
    out.stages.layers.push_back(stage.LayersOf(cost->layers).count());
  }
  out.stages.bubble = cost->timeline.StepBubble();
  if (cost->timed) out.stages.seconds = cost->Step();
  return out;
}

}  // namespace shardc::cost
