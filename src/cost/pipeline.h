// Computes the cost of a pipeline: the bytes of each rank, and the time of a
// step. For the time, the schedule is run with the times of each stage, whose
// cost is computed as that of a model of its own.
#ifndef SHARDC_COST_PIPELINE_H_
#define SHARDC_COST_PIPELINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/rank_cost.h"
#include "cost/report.h"
#include "cost/settings.h"
#include "cost/stage_cost.h"
#include "cost/stage_inputs.h"
#include "plan/compile.h"
#include "plan/planned_stages.h"
#include "plan/staged_plan.h"
#include "schedule/simulate.h"
#include "schedule/table.h"
#include "source/finding.h"

namespace shardc::cost {

struct PipelineCost {
  std::string axis;
  int64_t layers = 0;
  schedule::Table table;
  std::vector<StageCost> stages;
  std::vector<RankCost> ranks;
  int64_t boundary = 0;  // bytes of a message between stages
  double hop = 0;        // seconds of such a message
  bool timed = false;    // whether times are seconds, not FLOPs
  schedule::Timeline timeline;
  double after = 0;  // the longest `StageCost::after` of a rank
  std::optional<int64_t> capacity;
  Settings settings;  // with the table's micro-batches
  // The number of layers of each stage in the best division that a search
  // finds, and the time of a step with that division. Both are set only if that
  // step is clearly faster than the step with the requested division.
  std::vector<int64_t> better;
  double better_step = 0;
  std::vector<std::string> assumptions;

  double Step() const { return timeline.step + after; }
  // Returns the time of the slowest stage as a multiple of the mean.
  double Unevenness() const;
  std::optional<int64_t> Fullest() const;
  // Returns the rank that is expected to take the most memory; null if a
  // component of any rank, other than its logits, is unknown.
  const RankCost* FullestRank() const;
  // Returns whether all ranks fit, as Memory::Verdict does for one device.
  std::optional<Fit> Verdict() const;
  std::optional<bool> Fits() const;
  // Returns the reasons why activations and logits of stages are unknown, each
  // once.
  std::vector<std::string> Unknown() const;
};

// Returns the communication of a device of a rank in a step: the collectives of
// its stages in all micro-batches, and the messages to other ranks as kPpermute
// of the part "stages" over the pipeline's axis. `rank` must be a rank of
// `cost`.
Communication CommunicationOf(const PipelineCost& cost, const RankCost& rank);

// Return one report for each set of ranks whose devices hold the same bytes, or
// send the same bytes, in the order of the first rank of each. The reports have
// the memory alone, or the communication alone.
std::vector<Report> ReportsOfMemory(const PipelineCost& cost, const Mesh& mesh);
std::vector<Report> ReportsOfTraffic(const PipelineCost& cost,
                                     const Mesh& mesh);

// Computes the cost of a pipeline. `stages` are the stages of the plan; with
// StageBalance::kSearched the times of tasks decide how the layers are divided.
// With `exposed` a rank computes nothing while it sends. The number of
// micro-batches comes from the stages' table, not from the settings. If the
// settings have no profile, the mesh's profile is used. Returns nullopt after a
// finding (microbatches-indivisible).
std::optional<PipelineCost> PipelineCostOf(const StagedModel& model,
                                           const CostInputs& work,
                                           const Settings& settings,
                                           const PlannedStages& stages,
                                           bool exposed, Findings& findings);

// Does the same with the loss of the target's rules (WithLossOf).
inline std::optional<PipelineCost> PipelineCostOf(
    const Compiled& compiled, const CostInputs& work, const Settings& settings,
    const PlannedStages& stages, bool exposed, Findings& findings) {
  return PipelineCostOf({compiled.plan, compiled.manifest.separator}, work,
                        WithLossOf(compiled.rules, settings), stages, exposed,
                        findings);
}

// Computes the cost of a pipeline's plan that was read from a file.
inline std::optional<PipelineCost> PipelineCostOf(const StagedPlan& plan,
                                                  const CostInputs& work,
                                                  const Settings& settings,
                                                  bool exposed,
                                                  Findings& findings) {
  return PipelineCostOf({plan.plan, plan.separator, plan.layers_known}, work,
                        settings, plan.stages, exposed, findings);
}

}  // namespace shardc::cost

#endif  // SHARDC_COST_PIPELINE_H_
