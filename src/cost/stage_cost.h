// The bytes and the times of one stage of a pipeline.
#ifndef SHARDC_COST_STAGE_COST_H_
#define SHARDC_COST_STAGE_COST_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "plan/stage_units.h"
#include "schedule/simulate.h"

namespace shardc::cost {

// The cost of one stage on one device. Bytes and times that depend on a
// micro-batch are those of one micro-batch.
struct StageCost {
  int64_t begin = 0, end = 0;  // units
  std::optional<int64_t> parameters, gradients, optimizer;
  int64_t kept = 0;     // activations, from forward to backward
  int64_t working = 0;  // of the layer that is computed
  int64_t logits = 0, gathered = 0;
  // What a device of the stage takes whose batch is one micro-batch, with the
  // lower estimate of `kept` in it and the bytes outside of tensors.
  std::optional<TakenBytes> taken;
  int64_t least_kept = 0, context = 0;
  schedule::StageTimes times;  // seconds, or floating-point operations
  double after = 0;            // seconds after the tasks: gradients, update
  bool timed = false;          // `times` are seconds

  // The bytes of parameters, gradients and optimizer states, if known.
  std::optional<int64_t> States() const;
  // The layers of the stage, in a model with so many layers.
  LayerRange LayersOf(int64_t layers) const {
    return LayersIn(begin, end, layers);
  }
};

// Computes the cost of a stage. `work` are the inputs of the stage's own
// program (StageInputs).
StageCost StageCostOf(const CostInputs& work, const Settings& settings,
                      const StageUnits& units, int64_t begin, int64_t end);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STAGE_COST_H_
