// The number of heads of each attention block, which sharding must keep
// together.
#ifndef SHARDC_SUGGEST_HEADS_H_
#define SHARDC_SUGGEST_HEADS_H_

#include <cstdint>

#include "suggest/dims.h"

namespace shardc::suggest {

// Sets `units` of attention projections and of fused gate-up projections.
// `tensor_parts` is the number of shards along the heads: if the size of a head
// is assumed and the shards are no power of two, a shard has to hold a whole
// number of heads for every likely size.
void InferHeads(const Tree& tree, const ModelConfig* model,
                int64_t tensor_parts, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_HEADS_H_
