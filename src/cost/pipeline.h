// Computes the cost of a pipeline: the bytes of each rank, and the time of a
// step. Each stage is costed as a separate model. The time of a step is found
// by running the schedule with the times of the stages.
#ifndef SHARDC_COST_PIPELINE_H_
#define SHARDC_COST_PIPELINE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/report.h"
#include "cost/settings.h"
#include "cost/stage_cost.h"
#include "model/not_known.h"
#include "plan/compile.h"
#include "plan/planned_stages.h"
#include "plan/staged_plan.h"
#include "schedule/order.h"
#include "schedule/table.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::cost {

struct RankCost {
  std::vector<int32_t> stages;
  // For each of `stages`, how many of its micro-batches the rank runs.
  std::vector<int64_t> microbatches;
  // The bytes that a device of the rank holds at the peak of its step.
  Held held;
  // `held` plus the bytes that the runtime and the allocator add; nullopt if
  // the bytes of a component are unknown.
  std::optional<TakenBytes> taken;
  // The bytes of messages to other ranks in a step, in the forward and in the
  // backward pass.
  int64_t sent_forward = 0, sent_back = 0;
  // The seconds of the reduction of gradients and of the optimizer's update,
  // which follow the last micro-batch, summed over the rank's stages.
  double after = 0;
};

// Returns the costs of the ranks of a pipeline, whose schedule is `table`.
// `stages` are the costs of the stages. `shared_last` is the cost of the last
// stage on a rank that also has the first stage. A message between stages has
// `boundary` bytes. `work` are the inputs of the complete model.
std::vector<RankCost> RankCostsOf(const schedule::Table& table,
                                  std::span<const StageCost> stages,
                                  const StageCost& shared_last,
                                  int64_t boundary, const CostInputs& work,
                                  const Settings& settings);

struct PipelineCost {
  std::string axis;
  int64_t layers = 0;
  schedule::Table table;
  std::vector<StageCost> stages;
  std::vector<RankCost> ranks;
  // The bytes of a message from a stage to the next stage, and its seconds.
  int64_t boundary = 0;
  double hop = 0;
  // True if the times of tasks are seconds, false if they are floating-point
  // operations.
  bool timed = false;
  schedule::Timeline timeline;
  // The seconds between the last micro-batch and the end of the step, on the
  // slowest rank: the reduction of gradients and the optimizer's update.
  double after = 0;
  // The range of the time of a step. In the least time, each stage takes its
  // least time and messages take none; in the most time, each stage takes its
  // most time and a rank computes nothing while it sends. Both are 0 if the
  // times are not seconds.
  double least = 0, most = 0;
  std::optional<int64_t> capacity;
  // The caller's settings, adapted to the pipeline. For example, the number of
  // micro-batches is that of the schedule.
  Settings settings;
  // The number of layers of each stage in the best division that a search
  // finds, and the time of a step with that division. Both are set only if that
  // step is clearly faster than the step with the requested division.
  std::vector<int64_t> better;
  double better_step = 0;
  std::vector<std::string> assumptions;

  double Step() const { return timeline.step + after; }
  // Returns whether the tasks of stages have times, in seconds or in
  // floating-point operations. They have none if the roles of parameters are
  // not known.
  bool HasTimes() const { return timeline.step > 0; }
  // Returns the time of the slowest stage divided by the mean time of the
  // stages.
  double Unevenness() const;
  std::optional<int64_t> Fullest() const;
  // Returns the rank that is expected to use the most memory. Returns null if a
  // component other than the logits is unknown on a rank.
  const RankCost* FullestRank() const;
  // Returns whether all ranks fit the memory of their devices, may fit it, or
  // exceed it, by the rules of Memory::Verdict for one device.
  std::optional<Fit> Verdict() const;
  std::optional<bool> Fits() const;
  // Returns whether all tensors of activations are known
  // (StageCost::sums_known).
  bool KnowsSums() const;
  // Returns the facts that are not known and that the activations and logits of
  // stages need, without repetitions. UnknownBesidesSums() leaves out the fact
  // by which only the sums of attention are missing.
  std::vector<NotKnown> UnknownBesidesSums() const;
  std::vector<NotKnown> Unknown() const;
};

// Returns what a device of a rank sends in a step: the collectives of its
// stages in all micro-batches, and the messages to other ranks. A message is a
// Transfer of the kind kPpermute and the part "stages" over the pipeline's
// axis. `rank` must be a rank of `cost`.
Communication CommunicationOf(const PipelineCost& cost, const RankCost& rank);

// ReportsOfMemory returns one report for each set of ranks whose devices hold
// the same bytes. ReportsOfTraffic returns one for each set of ranks whose
// devices send the same bytes. The reports are in the order of the first rank
// of each set, and contain only the memory or only the communication.
std::vector<Report> ReportsOfMemory(const PipelineCost& cost, const Mesh& mesh);
std::vector<Report> ReportsOfTraffic(const PipelineCost& cost,
                                     const Mesh& mesh);

// Computes the cost of a pipeline. `stages` are the stages of the plan. With
// StageBalance::kSearched, the division of the layers into stages is chosen by
// the computed times of the stages. With `exposed`, a rank computes nothing
// while it sends. The number of micro-batches is that of the schedule in
// `stages`, not that of the settings. If the settings have no profile, the
// mesh's profile is used. If the batch's rows cannot be divided equally over
// the replicas and the micro-batches, adds the error microbatches-indivisible
// to `findings` and returns nullopt.
std::optional<PipelineCost> PipelineCostOf(const StagedModel& model,
                                           const CostInputs& work,
                                           const Settings& settings,
                                           const PlannedStages& stages,
                                           bool exposed, Findings& findings);

// Computes the cost of a compiled target's pipeline, with the loss that the
// target's rules define (WithLossOf).
inline std::optional<PipelineCost> PipelineCostOf(
    const Compiled& compiled, const CostInputs& work, const Settings& settings,
    const PlannedStages& stages, bool exposed, Findings& findings) {
  return PipelineCostOf({compiled.plan, compiled.manifest.separator}, work,
                        WithLossOf(compiled.rules, settings), stages, exposed,
                        findings);
}

// Computes the cost of a pipeline whose plan was read from a file.
inline std::optional<PipelineCost> PipelineCostOf(const StagedPlan& plan,
                                                  const CostInputs& work,
                                                  const Settings& settings,
                                                  bool exposed,
                                                  Findings& findings) {
  return PipelineCostOf({plan.plan, plan.separator, plan.layers_known}, work,
                        settings, plan.stages, exposed, findings);
}

enum class BudgetFigure : uint8_t { kMemory, kSent, kTime };
inline constexpr std::array<std::string_view, 3> kBudgetFigureNames = {
    "memory", "sent", "time"};

// A part of a figure, such as {"activations", 4096}.
using FigurePart = std::pair<std::string, double>;

struct StepFigure {
  // Bytes or, for kTime, seconds; nullopt if nothing is known.
  std::optional<double> value;
  bool at_least = false;  // whether `value` is only a lower bound
  std::vector<FigurePart> parts;
  // Why the figure is not known or only a lower bound. It may be empty.
  std::vector<NotKnown> unknown;

  bool IsKnown() const { return value && !at_least; }
};

// Indexed by BudgetFigure.
using StepFigures = std::array<StepFigure, kBudgetFigureNames.size()>;

// Returns the figures that `cost` prints: the expected memory of the fullest
// device, the bytes that the busiest device sends, and the expected time of the
// step. Without an expected time, as in serving, the time is the one that the
// step takes if nothing overlaps.
StepFigures FiguresOf(const Report& report);
// Returns the figures of a pipeline, with those of the rank that uses the most
// memory and of the rank that sends the most bytes. `work` are the inputs of
// the complete model.
StepFigures FiguresOf(const PipelineCost& cost, const CostInputs& work);

// The figures that are committed next to a plan.
struct CostLock {
  std::string plan;  // the fingerprint of the plan that was written with them
  Mode mode = Mode::kTrain;
  StepFigures figures;
};
inline constexpr std::string_view kCostLockSchema = "shardc.cost-lock/v1";

// Reads the figures that WriteCostLock (emit/costs) wrote. Returns nullopt
// after the finding SHD022 (schema) if the document is not of this form.
std::optional<CostLock> ReadCostLock(const JsonDocument& document,
                                     Findings& findings);

// Returns the parts of `now`, the largest first. With `before`, returns the
// parts that grew and by how much.
std::vector<FigurePart> LargestParts(const StepFigure& now,
                                     const StepFigure* before = nullptr);

}  // namespace shardc::cost

#endif  // SHARDC_COST_PIPELINE_H_
