// Infers the number of heads of each attention block, because a head must stay
// in one shard.
#ifndef SHARDC_SUGGEST_HEADS_H_
#define SHARDC_SUGGEST_HEADS_H_

#include <cstdint>

#include "suggest/dims.h"

namespace shardc::suggest {

// Sets InferredDims::units, the numbers that the size of the tensor-parallel
// axis has to divide, for attention projections and for fused gate-up
// projections. `tensor_parts` is the size of that axis. The size of a head may
// be only assumed. If `tensor_parts` is then not a power of two, the units suit
// every likely head size that divides the projections: each shard has complete
// heads.
void InferHeads(const Tree& tree, const ModelConfig* model,
                int64_t tensor_parts, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_HEADS_H_
