// Infers the number of heads of each attention block, because a head must stay
// in one shard.
#ifndef SHARDC_SUGGEST_HEADS_H_
#define SHARDC_SUGGEST_HEADS_H_

#include <cstdint>

#include "suggest/dims.h"

namespace shardc::suggest {

// Sets InferredDims::units (the counts that the tensor-parallel axis has to
// divide) of attention projections and of fused gate-up projections.
// `tensor_parts` is the number of shards along the heads. If the size of a head
// is only assumed and `tensor_parts` is not a power of two, the units are
// chosen so that each shard has an integral number of heads for every likely
// head size that divides the projections.
void InferHeads(const Tree& tree, const ModelConfig* model,
                int64_t tensor_parts, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_HEADS_H_
