// The traces that verification runs: sequences of calls over a cache or over
// pages.
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
  int64_t prefill = 96;  // tokens of the longest row, written in chunks
  int64_t chunk = 96;
  int64_t steps = 64;
  int64_t slots = 160;  // slots of a row of the cache
  // If above 0, only the last `window` keys are visible and slots are reused.
  int64_t window = 0;
  Dtype dtype = Dtype::kF32;
  Dtype kv_dtype = Dtype::kF32;  // dtype of the cache; I8 is stored with scales
  exec::RotaryStyle style = exec::RotaryStyle::kHalves;
  Rotation rotation;
  bool ragged = true;  // true: row b's prefill is 5 b tokens shorter
  bool insert = true;  // true: the last row is replaced before decoding
  bool left_padding = false;
  Spec prefill_spec, decode_spec;  // specs of the cache [B, S, K, D]
  // The spec of new tokens [B, n, K, D] in prefill. D must be unsharded,
  // because the tokens are rotated.
  Spec token_spec;
  AxisGroup query_heads, query_dim;  // axes of decode's query [B, 1, H, D]
  exec::OperationSettings settings = SmallBlocks();  // settings of decoding
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
  int64_t pages_per_request = 6;  // the most pages of a request
  // Random steps, each of which grows, shares or releases requests.
  int64_t steps = 40;
  Dtype dtype = Dtype::kF32;
  AxisGroup page_axes, head_axes;
  uint64_t seed = 1;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_TRACE_H_
