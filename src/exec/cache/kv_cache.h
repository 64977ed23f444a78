// Directory: exec/cache. The sharded KV cache.
// Its files include headers of these directories: source, floats, exec/kernels,
// exec/machine.
//
// The key-value cache of a simulated serving run. Prefill writes a cache of one
// row, which is then inserted into the cache of a batch. Decode steps append to
// this cache. A cache can be resharded, for example from the layout of prefill
// to that of decode.
//
// Each row of the batch has its own length. Position p of a row is at slot p of
// dimension 1, or at slot p mod max_length if the cache has a window and reuses
// its slots. `index` holds the position of each row's next token, and `start`
// each row's first position that is not padding. These two arrays are small, so
// every device has all of them.
#ifndef SHARDC_EXEC_CACHE_KV_CACHE_H_
#define SHARDC_EXEC_CACHE_KV_CACHE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"

namespace shardc::exec {

struct CacheConfig {
  int64_t batch = 1;          // B in shapes
  int64_t max_length = 1;     // S in shapes: slots of a row
  int64_t key_heads = 1;      // K in shapes
  int64_t head_dim = 1;       // D in shapes
  Dtype dtype = Dtype::kF32;  // F32, F16, BF16, or I8 with F32 scales
  // If more than 0, queries attend only to the last `window` positions, and
  // slots are reused: position p is at slot p mod max_length.
  int64_t window = 0;
};

struct KvCache {
  CacheConfig config;
  ShardedTensor key;    // [B, S, K, D]
  ShardedTensor value;  // [B, S, K, D]
  // For I8 only: F32 [B, S, K], the largest |x| of each row of D elements. They
  // are sharded like keys and values.
  ShardedTensor key_scale;
  ShardedTensor value_scale;
  // Used only with a window: I32 [B, S], the position that each slot holds, or
  // -1 for an empty slot.
  ShardedTensor positions;
  std::vector<int64_t> index;  // [B]: position of the next token of each row
  // [B]: first valid position; positions before it are left padding.
  std::vector<int64_t> start;

  const Spec& spec() const { return key.spec; }
  bool IsQuantized() const { return config.dtype == Dtype::kI8; }
  bool Rolls() const { return config.window > 0; }
};

// Returns a cache with empty slots, or nullopt if the configuration or the spec
// of [B, S, K, D] is illegal.
std::optional<KvCache> MakeCache(const SimMesh& mesh, const CacheConfig& config,
                                 const Spec& spec, LayoutError& why);

// Appends n tokens to every row. `key` and `value` are [B, n, K, D] in F32 with
// any spec. They are first resharded to the cache's spec, but with the length
// unsharded. The bytes sent are recorded in the machine's ledger. If the
// cache's length is sharded, only the devices that hold a position's slot write
// it. If `counts` [B] is not empty, row b gets only its first counts[b] tokens.
// Returns false, with the reason, and writes nothing if a token has no slot or
// the shapes or counts do not fit.
bool AppendTokens(Machine& machine, KvCache& cache, const ShardedTensor& key,
                  const ShardedTensor& value,
                  const std::vector<int64_t>& counts, LayoutError& why);

// Copies the only row of `from`, with its length and start, to row `slot` of
// `into`. The configurations of `from` and `into` must be equal except for
// `batch`, which is 1 in `from`. Only the devices that hold row `slot` keep the
// copy. The reshard that this needs is recorded in the machine's ledger of
// bytes sent. Returns false, with the reason, if the row does not fit or there
// is no row `slot`.
bool InsertRow(Machine& machine, const KvCache& from, KvCache& into,
               int64_t slot, LayoutError& why);

// Reshards every tensor of the cache to `spec`, for example to the layout for
// decode. Records the bytes sent in the machine's ledger. Returns false, with
// the reason, if the spec is illegal.
bool MoveCache(Machine& machine, KvCache& cache, const Spec& spec,
               LayoutError& why);

// The cache as attention reads it: keys and values in one dtype (int8 is
// dequantised in F32 and then rounded), and the lengths of the rows.
struct CacheView {
  ShardedTensor key;    // [B, S, K, D]
  ShardedTensor value;  // [B, S, K, D]
  // Used only with a window: I32 [B, S], the position that each slot holds, or
  // -1 for an empty slot.
  ShardedTensor positions;
  std::vector<int64_t> lengths;  // [B]: one more than the last valid position
  std::vector<int64_t> starts;   // [B]: the first valid position
  // Whether the buffers of `key` and `value` are the cache's own.
  bool lent = false;
};
CacheView ViewCache(const Machine& machine, const KvCache& cache, Dtype dtype);
// Returns a view. If `dtype` can represent every value of the cache's dtype,
// the buffers move to the view without a copy. The cache then has no keys and
// values until ReturnCache moves them back. Otherwise the view is a copy.
CacheView LendCache(const Machine& machine, KvCache& cache, Dtype dtype);
void ReturnCache(CacheView view, KvCache& cache);

// The arguments of OwnSlot: a position to write, and one of the ranks (parts)
// over which the length is sharded.
struct SlotQuery {
  int64_t position = 0;
  int64_t window = 0;  // above 0: position p is at slot p mod `slots`
  int64_t slots = 1;   // slots of a row, summed over all ranks
  int64_t parts = 1, rank = 0;
};
// Returns the slot of the position within this rank's shard, or -1 if another
// rank has the slot.
int64_t OwnSlot(const SlotQuery& query);

// CacheSeam has the steps of the cache that a test can replace to inject a
// fault. RunAppend and RunInsert are two of its default functions. AppendTokens
// and InsertRow call `append` and `insert` of the machine's CacheSeam.
bool RunAppend(Machine& machine, KvCache& cache, const ShardedTensor& key,
               const ShardedTensor& value, const std::vector<int64_t>& counts,
               LayoutError& why);
bool RunInsert(Machine& machine, const KvCache& from, KvCache& into,
               int64_t slot, LayoutError& why);
struct CacheSeam {
  std::function<int64_t(const SlotQuery&)> slot = OwnSlot;
  std::function<bool(Machine&, KvCache&, const ShardedTensor&,
                     const ShardedTensor&, const std::vector<int64_t>&,
                     LayoutError&)>
      append = RunAppend;
  std::function<bool(Machine&, const KvCache&, KvCache&, int64_t, LayoutError&)>
      insert = RunInsert;
  // Changes the positions, lengths and starts of a view. Unset: no change.
  std::function<void(const Machine&, const KvCache&, CacheView&)> view;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_CACHE_KV_CACHE_H_
