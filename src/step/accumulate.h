// Gradient accumulation over micro-batches.
#ifndef SHARDC_STEP_ACCUMULATE_H_
#define SHARDC_STEP_ACCUMULATE_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// When the gradients of micro-batches are reduced.
enum class Reduction : uint8_t {
  // As FSDP and HSDP do: each micro-batch reduces a gradient over the axes that
  // shard the parameter, so that only a shard is accumulated. Over all other
  // axes the accumulated sum is reduced once, after the last micro-batch.
  kSharded,
  kOnce,  // partial gradients are added, and the sum is reduced at the end
  kEach,  // each micro-batch reduces its own gradients
};
// The prefix of the constraint that a micro-batch's gradient has under
// kSharded: `part:q` for the role q.
inline constexpr std::string_view kPartOfGradient = "part:";

// A micro-batch's gradient of a parameter, which is one term of a sum.
struct GradientTerm {
  int32_t micro = 0;
  ValueId value = kNoValue;  // in the graph of one micro-batch
};

// How the ranks of a pipeline add gradients: each rank adds the gradients that
// its own tasks compute, in the order of the tasks. The sums of several ranks
// are added at the end.
struct GradientSums {
  // of[parameter][rank] has the terms of the rank's sum, in order.
  std::vector<std::vector<std::vector<GradientTerm>>> of = {};
  // Gradients that Accumulate does not append, because their terms are part of
  // sums.
  std::vector<ValueId> replaced = {};
  // Set by Accumulate. For each value of the new graph that adds a term to a
  // rank's sum: this term.
  std::map<ValueId, GradientTerm> adds = {};
};

// Changes a graph of one micro-batch, with its backward phase and without the
// optimizer, to a graph of several. Each micro-batch runs forward and backward
// on its own data before the next one starts, and losses are divided by the
// tokens of all micro-batches (router losses by the number of micro-batches).
// Returns false, without a change, if the first term of the loss is not a sum
// divided by the number of its tokens, or another term is not a scaled value.
// One micro-batch changes nothing. Without `sums` each gradient is the sum over
// micro-batches in their order. With `sums` there must be at least two
// micro-batches.
bool Accumulate(Graph& graph, int64_t micro_batches, Reduction reduction,
                GradientSums* sums = nullptr);
// Changes the graph like Accumulate, but writes the ops of one micro-batch,
// which represent those of all micro-batches; they have Op::micro 0, and all
// other ops have -1. The sum of a gradient over micro-batches has the gradient
// of this micro-batch as its only operand. The graph is for counting
// collectives; it does not compute a step.
bool AccumulateOne(Graph& graph, int64_t micro_batches, Reduction reduction);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ACCUMULATE_H_
