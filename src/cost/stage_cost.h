// The bytes and the times of one stage of a pipeline.
#ifndef SHARDC_COST_STAGE_COST_H_
#define SHARDC_COST_STAGE_COST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "plan/plan.h"
#include "plan/plan_table.h"
#include "plan/planned_stages.h"
#include "plan/representatives.h"
#include "plan/stage_units.h"
#include "schedule/order.h"

namespace shardc::cost {

// The cost of one stage on one device. Activations and the times of tasks are
// for one micro-batch.
struct StageCost {
  // The stage has the units from `begin` to before `end`. Unit 0 is the
  // embedding, unit n + 1 is layer n, and the last unit is the head.
  int64_t begin = 0, end = 0;
  std::optional<int64_t> parameters, gradients, optimizer;
  // The bytes of weights that are gathered once and held during the step.
  int64_t gathered = 0;
  // The peak of the bytes of a device while it runs one micro-batch.
  Peak peak;
  // The facts that are not known and that activations need. The activations,
  // or the part of them that needs these facts, are not in `peak`.
  std::vector<NotKnown> unknown;
  // The layers that the tree of parameters does not have. The bytes of the
  // stage are those of the others.
  std::optional<NotKnown> lacking;
  bool logits_known = true;  // if false, `peak` does not include the logits
  // If false, `peak` does not include the sums of attention
  // (Activations::sums_known).
  bool sums_known = true;
  // The collectives of all micro-batches, without the messages between stages.
  Communication communication;
  // The collectives of a step of one micro-batch, without the messages between
  // stages. The member is set only if several ranks share the micro-batches of
  // the stage.
  Communication of_one;
  // The times of the tasks of one micro-batch. They are seconds if `timed` is
  // true, else floating-point operations.
  schedule::StageTimes times;
  // The seconds after all tasks, in which gradients are reduced and parameters
  // are updated.
  double after = 0;
  bool timed = false;
  // The least and the most time of the stage's program, as fractions of the
  // expected time (ExpectedTime::least and ExpectedTime::most).
  double least = 1, most = 1;

  // Returns the bytes that a device holds throughout a step: parameters,
  // gradients, optimizer states, and weights that are gathered once. Returns
  // nullopt if one of them is unknown.
  std::optional<int64_t> States() const;
  // Returns the range of the layers that the stage has, in a model of `layers`
  // layers.
  LayerRange LayersOf(int64_t layers) const {
    return LayersIn(begin, end, layers);
  }
};

// Returns the settings with which the stages of a pipeline of `ranks` ranks are
// costed. Weights are gathered once a step (Settings::gathers_once) if there
// are several ranks and the software gathers them once. Gradients are then
// reduced once, after the last micro-batch, unless the settings require a
// reduction in each micro-batch. Under ZeRO stage 2, gradients are reduced once
// in any pipeline.
Settings StageSettings(const CostInputs& work, Settings settings,
                       int64_t ranks);

// Computes the cost of the stage with the units from `begin` to before `end`. A
// unit is the embedding, a layer or the head. `work` are the inputs of this
// stage (StageInputs).
StageCost StageCostOf(const CostInputs& work, const Settings& settings,
                      const StageUnits& units, int64_t begin, int64_t end);

// A plan of a model that is divided into the stages of a pipeline.
struct StagedModel {
  const Plan& plan;
  char separator = '.';  // the separator in parameter names
  // True if the layer of each parameter is known. If only the stage of each
  // parameter is known, other divisions of the layers cannot be evaluated.
  bool layers_known = true;
};

// Returns the inputs of one stage: the parameters of the units from `begin` to
// before `end`, on the stage's mesh. On a stage without the head, the embedding
// gets the role of position embeddings, so that no logits are computed from it.
// With `copies`, the last unit has a copy of an embedding that the head shares
// with the first unit.
CostInputs StageInputs(const StagedModel& model, const CostInputs& all,
                       const PlannedStages& stages, int64_t begin, int64_t end,
                       bool copies = true);

// Returns the inputs of all stages of a plan that was read from a file. The
// plan may lack the axes of the hidden state, which a stage sends to the next
// stage. They are then assumed to be the axes of the query's heads, if these
// divide the hidden size.
CostInputs StagedPlanInputs(const ReadPlan& plan,
                            std::optional<ModelConfig> model);

// Returns one number for each unit. Layers whose parameters have the same
// layouts have the same number. The numbers begin at 0. The number of the first
// unit and that of the last unit differ from all others.
std::vector<size_t> KindsOfUnits(const Plan& plan, const StageUnits& units);

// Makes the inputs for some parameters of a plan: those whose entry in
// `chosen.counts` is not 0. The mesh, the axes of tokens and the axes of the
// hidden state are copied from `whole`, the inputs of the complete plan.
// `separator` is the separator in the parameters' names. A tensor may stack
// several layers; `slices` states how many of them are included. If `slices` is
// null, all layers are.
CostInputs ChosenInputs(const Plan& plan, char separator,
                        const CostInputs& whole,
                        std::optional<ModelConfig> model,
                        const Representatives& chosen,
                        const StackSlices* slices);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STAGE_COST_H_
