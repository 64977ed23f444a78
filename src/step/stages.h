// Finds the stage of a pipeline to which each op of a training step belongs.
#ifndef SHARDC_STEP_STAGES_H_
#define SHARDC_STEP_STAGES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// The division of layers into stages. Ops before the layers belong to the first
// stage, and ops after the layers to the last stage.
struct StageDivision {
  int32_t stages = 1;
  // The stage of each layer, indexed by layer; -1 if the layer is in no stage.
  std::vector<int32_t> of_layer = {};
};

enum class StageWork : uint8_t {
  // The op depends on parameters and moments only, so any rank can compute it.
  kParameters,
  kData,  // The op depends on data only, so any rank can compute it.
  // The op belongs to the forward or backward task of a micro-batch.
  kTask,
  kAfter,  // The op follows the tasks of several micro-batches or stages.
};

struct OpStage {
  StageWork work = StageWork::kTask;
  // The stage of a task; -1 if the op's layer is in no stage.
  int32_t stage = -1;
  // Whether the op belongs to a task but is outside the layers.
  bool outside = false;
};

// Returns the stage of each op. `given` has the stages of values whose stage
// does not follow from the ops that compute them, such as sums of gradients. If
// `accumulated` is false, all ops of the forward and backward phase belong to
// one micro-batch.
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
