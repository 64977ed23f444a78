// The bytes and the times of one stage of a pipeline.
#ifndef SHARDC_COST_STAGE_COST_H_
#define SHARDC_COST_STAGE_COST_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

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
  int64_t begin = 0, end = 0;  // the stage has the units [begin, end)
  std::optional<int64_t> parameters, gradients, optimizer;
  int64_t gathered = 0;  // weights that are gathered once and held for the step
  Peak peak;             // while a device runs one micro-batch
  // The reason why the activations are unknown; `peak` then lacks them. Empty
  // if they are known.
  std::string unknown;
  bool logits_known = true;     // if false, `peak` lacks the logits
  Communication communication;  // of all micro-batches, without messages
  // The communication of a step of one micro-batch, without messages. It is set
  // only if ranks share the micro-batches of the stage.
  Communication of_one;
  schedule::StageTimes times;  // seconds, or floating-point operations
  double after = 0;            // seconds after the tasks: gradients, update
  bool timed = false;          // whether `times` are seconds

  // Returns the bytes that a device holds throughout a step: parameters,
  // gradients, optimizer states, and weights that are gathered once. Returns
  // nullopt if one of them is unknown.
  std::optional<int64_t> States() const;
  // Returns which layers the stage has, in a model of `layers` layers.
  LayerRange LayersOf(int64_t layers) const {
    return LayersIn(begin, end, layers);
  }
};

// Returns the settings with which the stages of a pipeline of this many ranks
// are costed. Weights are gathered once a step (Settings::gathers_once) if
// there are several ranks and the software does so. Gradients are then reduced
// once, after the last micro-batch, unless the settings require a reduction in
// each micro-batch. Under ZeRO stage 2 they are reduced once in any pipeline.
Settings StageSettings(const CostInputs& work, Settings settings,
                       int64_t ranks);

// Computes the cost of the stage with the units from `begin` to before `end`.
// `work` are the inputs of this stage (StageInputs).
StageCost StageCostOf(const CostInputs& work, const Settings& settings,
                      const StageUnits& units, int64_t begin, int64_t end);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STAGE_COST_H_
