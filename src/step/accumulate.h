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
  // shard it, so that only a shard is accumulated. Over all other axes the
  // accumulated sum is reduced once, after the last micro-batch.
  kSharded,
  kOnce,  // partial gradients are added, and the sum is reduced at the end
  kEach,  // each micro-batch reduces its own
};
// The constraint of a micro-batch's gradient under kSharded: `part:q`.
inline constexpr std::string_view kPartOfGradient = "part:";

// A term of a gradient that one micro-batch adds.
struct GradientTerm {
  int32_t micro = 0;
  ValueId value = kNoValue;  // in the graph of one micro-batch
};

// How the ranks of a pipeline add gradients: each adds what its own tasks
// compute, in their order, and the sums of several ranks are added at the end.
struct GradientSums {
  // of[parameter][rank]: the terms of each rank's sum, in order.
  std::vector<std::vector<std::vector<GradientTerm>>> of = {};
  // Gradients that are not written, because their terms are in sums.
  std::vector<ValueId> replaced = {};
  // For a value of the graph of all micro-batches that is a sum: the term that
  // it adds to the sum before it. Set by Accumulate.
  std::map<ValueId, GradientTerm> adds = {};
};

// Changes the graph of one micro-batch, with its backward phase and without the
// optimizer, to that of several. Each runs forward and backward before the next
// starts, on its own data; losses are divided by the tokens of all of them.
// Returns false if the loss is not a sum divided by the number of its tokens.
// Without `sums` each gradient is the sum over micro-batches in their order;
// with them there are at least two micro-batches.
bool Accumulate(Graph& graph, int64_t micro_batches, Reduction reduction,
                GradientSums* sums = nullptr);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ACCUMULATE_H_
