// Infers the number of heads of each attention block, because a head must stay
// in one shard.
#ifndef SHARDC_SUGGEST_HEADS_H_
#define SHARDC_SUGGEST_HEADS_H_

#include <cstdint>
#include <optional>

#include "model/project.h"
#include "suggest/dims.h"

namespace shardc::suggest {

struct Heads {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool assumed = false;  // true: the size of a head is a guess
  // Whether models have heads of this size. If not, the numbers are only safe
  // to shard by, and are not printed.
  bool likely = true;

  // Return the columns of all heads, and of all KV heads.
  int64_t Columns() const { return heads * head_dim; }
  int64_t KvColumns() const { return kv_heads * head_dim; }
};

// Returns the heads of the configuration. Returns nullopt if it states no
// number or no size of heads, or if `model` is null.
std::optional<Heads> ConfiguredHeads(const ModelConfig* model);

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
