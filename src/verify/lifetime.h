// A cache through its whole life on the simulated mesh, against plain arrays
// that remember every token: ragged prefill, the move to decode's layout, a
// row inserted into a slot, and decode steps, each of them attended to.
#ifndef SHARDC_VERIFY_LIFETIME_H_
#define SHARDC_VERIFY_LIFETIME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/kv_cache.h"
#include "exec/rotate_tokens.h"
#include "verify/case.h"
#include "verify/run_case.h"

namespace shardc::verify {

// Blocks that even a short cache has several of.
inline exec::OperationSettings SmallBlocks() {
  exec::OperationSettings out;
  out.blocksize_k = 32;
  return out;
}

struct Lifetime {
  Mesh mesh;
  int64_t batch = 2;
  int64_t heads = 4;
  int64_t key_heads = 2;
  int64_t head_dim = 16;
  int64_t prefill = 96;  // tokens of the longest row, written in chunks
  int64_t chunk = 96;
  int64_t steps = 64;
  int64_t slots = 160;  // of a row
  int64_t window = 0;   // above 0: the cache rolls
  Dtype dtype = Dtype::kF32;
  Dtype kv_dtype = Dtype::kF32;  // of the cache; I8 with scales
  exec::RotaryStyle style = exec::RotaryStyle::kHalves;
  bool ragged = true;  // row b's prefill is 5 b tokens shorter
  bool insert = true;  // the last row is replaced before decoding
  bool left_padding = false;
  Spec prefill_spec, decode_spec;  // of [B, S, K, D]
  Spec token_spec;                 // new tokens [B, n, K, D] of a prefill
  AxisGroup query_heads;           // decode's query [B, 1, H, D]
  exec::OperationSettings settings = SmallBlocks();  // of decoding
  std::optional<double> scale;
  double soft_cap = 0;
  double dropout = 0;
  uint64_t seed = 1;
};

struct LifetimeResult {
  Status status = Status::kPass;
  std::optional<Check> failed;
  std::string reason, help;
  std::string axis;   // the axis at fault
  int64_t step = -1;  // at which it failed; -1 before decoding
  double max_error = 0;
  double worst_ratio = 0;  // of error and tolerance
  // Of the step with that ratio: the error, that of the same attention on one
  // device, and the tolerance.
  ErrorOf error, unsharded;
  double tolerance = 0;
  std::vector<double> device_error;  // the largest of all steps
  exec::Ledger ledger;               // of everything
  int64_t decode_all_reduce = 0;     // bytes of one decode step, busiest device
  std::vector<std::string> remarks;
};

// After every step the output is compared with dense attention over what the
// cache should hold, and the cached (rotated) keys with it bit by bit: a
// rotation that is off alike in queries and keys changes no output.
LifetimeResult RunLifetime(const Lifetime& life, const RunOptions& options);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_LIFETIME_H_
