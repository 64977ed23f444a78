// The stage of a pipeline to which each op of a training step belongs.
#ifndef SHARDC_STEP_STAGES_H_
#define SHARDC_STEP_STAGES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// The division of layers into stages. Ops before the layers belong to the first
// stage, and those after them to the last.
struct StageDivision {
  int32_t stages = 1;
  // The stage of each layer, indexed by layer; -1 if the layer is in no stage.
  std::vector<int32_t> of_layer = {};
};

enum class StageWork : uint8_t {
  kParameters,  // depends on parameters and moments only: any rank computes it
  kData,        // depends on data only: any rank computes it
  kTask,        // belongs to the forward or backward task of a micro-batch
  kAfter,       // follows the tasks of several micro-batches or stages
};

struct OpStage {
  StageWork work = StageWork::kTask;
  int32_t stage = -1;  // of a task; -1 if its layer is in no stage
  // Whether the op belongs to a task and is outside the layers.
  bool outside = false;
};

// Returns the stage of each op. `given` has the stages of values whose stage
// does not follow from their ops, such as sums of gradients. If `accumulated`
// is false, all ops of the forward and backward phase belong to one
// micro-batch.
std::vector<OpStage> StagesOfOps(const Graph& graph,
                                 const StageDivision& division,
                                 const std::map<ValueId, int32_t>& given,
                                 bool accumulated);

// Returns for each parameter the stages whose tasks read it, in ascending
// order.
std::vector<std::vector<int32_t>> StagesOfParameters(
    const Graph& graph, const std::vector<OpStage>& ops);

}  // namespace shardc::step

#endif  // SHARDC_STEP_STAGES_H_
