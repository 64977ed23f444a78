// The bytes that a rank of a pipeline holds and sends.
#ifndef SHARDC_COST_RANK_COST_H_
#define SHARDC_COST_RANK_COST_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "cost/stage_cost.h"
#include "schedule/table.h"

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

}  // namespace shardc::cost

#endif  // SHARDC_COST_RANK_COST_H_
