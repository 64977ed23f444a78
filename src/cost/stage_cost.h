// The bytes and the times of one stage of a pipeline.
#ifndef SHARDC_COST_STAGE_COST_H_
#define SHARDC_COST_STAGE_COST_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "plan/stage_units.h"
#include "schedule/simulate.h"

namespace shardc::cost {

// The cost of one stage on one device. Activations and the times of tasks are
// for one micro-batch.
struct StageCost {
  int64_t begin = 0, end = 0;  // units
  std::optional<int64_t> parameters, gradients, optimizer;
  Peak peak;  // of a device of this stage that runs a single micro-batch
  Communication communication;  // of all micro-batches, without messages
  schedule::StageTimes times;   // seconds, or floating-point operations
  double after = 0;             // seconds after the tasks: gradients, update
  bool timed = false;           // `times` are seconds

  // Returns the bytes of parameters, gradients and optimizer states; nullopt if
  // one of them is unknown.
  std::optional<int64_t> States() const;
  // Returns which layers the stage has, in a model of `layers` layers.
  LayerRange LayersOf(int64_t layers) const {
    return LayersIn(begin, end, layers);
  }
};

// Computes the cost of the stage with the units from `begin` to before `end`.
// `work` are the inputs of this stage (StageInputs).
StageCost StageCostOf(const CostInputs& work, const Settings& settings,
                      const StageUnits& units, int64_t begin, int64_t end);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STAGE_COST_H_
