// The traces that verification runs: sequences of steps on a KV cache or on
// pages, such as a prefill and then decode steps.
#ifndef SHARDC_VERIFY_CASES_TRACE_H_
#define SHARDC_VERIFY_CASES_TRACE_H_

#include <cstdint>
#include <optional>

#include "exec/attention/rotate_tokens.h"
#include "exec/pages/page_pool.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns settings with blocks so small that a short cache has several blocks.
inline exec::OperationSettings SmallBlocks() {
  exec::OperationSettings out;
  out.blocksize_k = 32;
  return out;
}

struct CacheTrace {
  Mesh mesh;
  int64_t batch = 2;
  int64_t heads = 4;
  int64_t key_heads = 2;
  int64_t head_dim = 16;
  // The number of tokens of the longest row before decoding. They are written
  // in chunks of `chunk` tokens.
  int64_t prefill = 96;
  int64_t chunk = 96;
  int64_t steps = 64;
  int64_t slots = 160;  // slots of the cache for each row
  // If above 0, only the last `window` keys are visible and slots are reused.
  int64_t window = 0;
  Dtype dtype = Dtype::kF32;
  // The dtype of the cache. An I8 cache also has scales.
  Dtype kv_dtype = Dtype::kF32;
  exec::RotaryStyle style = exec::RotaryStyle::kHalves;
  Rotation rotation;
  // Whether rows have different lengths. If true, batch row b is 5 * b tokens
  // shorter than row 0.
  bool ragged = true;
  // Whether another sequence replaces the last row before decoding.
  bool insert = true;
  bool left_padding = false;
  Spec prefill_spec, decode_spec;  // specs of the cache [B, S, K, D]
  // The spec of new tokens [B, n, K, D] in prefill. D must be unsharded,
  // because the tokens are rotated.
  Spec token_spec;
  // The axes that shard the dimensions H and D of the query [B, 1, H, D] in
  // decode steps.
  AxisGroup query_heads, query_dim;
  exec::OperationSettings settings = SmallBlocks();  // used in decode steps
  std::optional<double> scale;
  double soft_cap = 0;
  double dropout = 0;
  uint64_t seed = 1;
};

struct PagedTrace {
  Mesh mesh;
  exec::PageFormat format = exec::PageFormat::kSeparate;
  int64_t requests = 4;
  int64_t key_heads = 2;
  int64_t head_dim = 8;
  int64_t page_size = 4;
  int64_t pages_per_request = 6;  // the most pages that a request may have
  // The number of steps. In each step, a request appends tokens, begins to
  // share the pages of another request, or is released.
  int64_t steps = 40;
  Dtype dtype = Dtype::kF32;
  AxisGroup page_axes, head_axes;
  uint64_t seed = 1;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_TRACE_H_
