// Infers the number of heads of each attention block, because a head must stay
// in one shard.
#ifndef SHARDC_SUGGEST_HEADS_H_
#define SHARDC_SUGGEST_HEADS_H_

#include <cstdint>

#include "suggest/dims.h"

namespace shardc::suggest {

// Sets InferredDims::units, the numbers that the size of the tensor-parallel
// axis has to divide, for attention projections and for fused gate-up
// projections. `tensor_parts` is the size of that axis. If the size of a head
// is only assumed and `tensor_parts` is not a power of two, a larger size is
// assumed: a multiple of every likely head size that divides the projections.
// Each shard then has complete heads for all these sizes.
void InferHeads(const Tree& tree, const ModelConfig* model,
                int64_t tensor_parts, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_HEADS_H_
