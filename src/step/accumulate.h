// Builds training steps that accumulate gradients over several micro-batches.
#ifndef SHARDC_STEP_ACCUMULATE_H_
#define SHARDC_STEP_ACCUMULATE_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// States over which axes, and how often, the gradients of micro-batches are
// reduced.
enum class Reduction : uint8_t {
  // As in FSDP and HSDP: each micro-batch reduces its gradient over the axes
  // that shard the parameter, so that only a shard is accumulated. Over all
  // other axes the accumulated sum is reduced once, after the last micro-batch.
  kSharded,
  // Partial gradients are accumulated, and their sum is reduced once, after the
  // last micro-batch.
  kOnce,
  kEach,  // Each micro-batch reduces its own gradients over all axes.
};
inline constexpr std::string_view kReductionNames[] = {"sharded", "once",
                                                       "each"};
// The prefix of the sharding constraint `part:ROLE`, such as `part:q` for the
// role q. Under kSharded, the gradient of a single micro-batch has this
// constraint.
inline constexpr std::string_view kPartOfGradient = "part:";

// A micro-batch's gradient of a parameter, which is one term of a sum.
struct GradientTerm {
  int32_t micro = 0;
  ValueId value = kNoValue;  // A value in the graph of one micro-batch.
};

// The order in which the ranks of a pipeline add gradients. A task is the
// forward or backward pass of one micro-batch on one rank. Each rank adds the
// gradients of its own tasks, in the order of the tasks. The sums of all ranks
// are added at the end.
struct GradientSums {
  // of[parameter][rank] lists the gradients that the rank adds, in order.
  std::vector<std::vector<std::vector<GradientTerm>>> of = {};
  // Gradients in the graph of one micro-batch. Accumulate() does not copy the
  // ops that compute these gradients, because it adds the terms in `of`
  // instead.
  std::vector<ValueId> replaced = {};
  // Set by Accumulate(). The key is the result of an op that adds a gradient to
  // a rank's sum, and the value is this gradient.
  std::map<ValueId, GradientTerm> adds = {};
};

// Changes a graph of one micro-batch, with its backward phase and without the
// optimizer, to a graph of several micro-batches. Each micro-batch runs forward
// and backward on its own data before the next one starts. Losses are divided
// by the number of tokens of all micro-batches, and router losses by the number
// of micro-batches.
//
// Returns false, without a change, if the loss does not have this form: a sum
// over tokens that is divided by their number, plus any number of values that
// are scaled by constants, such as router losses. If `micro_batches` is 1,
// nothing changes. Without `sums`, each gradient is the sum over micro-batches
// in their order. With `sums`, there must be at least two micro-batches.
bool Accumulate(Graph& graph, int64_t micro_batches, Reduction reduction,
                GradientSums* sums = nullptr);
// Changes the graph like Accumulate(), but writes the ops of only one
// micro-batch, which represent the ops of all micro-batches. These ops have
// Op::micro 0, and all other ops have -1. The sum of a gradient over
// micro-batches has the gradient of this micro-batch as its only operand. The
// graph serves to count collectives; it does not compute a step.
bool AccumulateOne(Graph& graph, int64_t micro_batches, Reduction reduction);

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

#endif  // SHARDC_STEP_ACCUMULATE_H_
