// Room: exec/cache. The sharded KV cache.
// Includes: source, floats, exec/kernels, exec/machine.
//
// The key-value cache over a serving trace: prefill writes, insertion into
// slots, decode steps, and the reshards between the layouts of these modes.
//
// Each row of the batch has its own length. Position p of a row is at slot p of
// dimension 1, or at p mod max_length where the cache rolls. Index and start
// are small and replicated.
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
  int64_t batch = 1;          // B
  int64_t max_length = 1;     // S: slots a row
  int64_t key_heads = 1;      // K
  int64_t head_dim = 1;       // D
  Dtype dtype = Dtype::kF32;  // F32, F16, BF16, or I8 with F32 scales
  // If above 0, only this many last positions are attended to, and slots are
  // reused: position p is at slot p mod S.
  int64_t window = 0;
};

struct KvCache {
  CacheConfig config;
  ShardedTensor key;    // [B, S, K, D]
  ShardedTensor value;  // [B, S, K, D]
  // I8 only: F32 [B, S, K], the largest |x| of a row; sharded as the values
  // are, without D.
  ShardedTensor key_scale;
  ShardedTensor value_scale;
  // With a window only: I32 [B, S], the position that each slot holds, or -1.
  ShardedTensor positions;
  std::vector<int64_t> index;  // [B]: next position to write
  std::vector<int64_t> start;  // [B]: first valid position (left padding)

  const Spec& spec() const { return key.spec; }
  bool IsQuantized() const { return config.dtype == Dtype::kI8; }
  bool Rolls() const { return config.window > 0; }
};

// Returns a cache with empty slots, or nullopt if the sizes or the spec of [B,
// S, K, D] are illegal.
std::optional<KvCache> MakeCache(const SimMesh& mesh, const CacheConfig& config,
                                 const Spec& spec, LayoutError& why);

// Appends n tokens to every row; key and value are [B, n, K, D] in F32 with any
// spec. They are first resharded to the cache's spec with the length unsharded,
// and charged. Where the length is sharded, each position is written by the one
// device that owns it. With `counts` [B], row b takes only its first counts[b]
// tokens. Returns false and writes nothing if a token has no slot.
bool AppendTokens(Machine& machine, KvCache& cache, const ShardedTensor& key,
                  const ShardedTensor& value,
                  const std::vector<int64_t>& counts, LayoutError& why);

// Copies the only row of `from` to row `slot`, with its length and start. All
// sizes but B must agree. Only the devices that own the slot keep the row;
// resharding it to their layout is charged.
bool InsertRow(Machine& machine, const KvCache& from, KvCache& into,
               int64_t slot, LayoutError& why);

// Reshards the cache to the layout of another mode; every part is charged.
bool MoveCache(Machine& machine, KvCache& cache, const Spec& spec,
               LayoutError& why);

// The cache as attention reads it: values of `dtype` (dequantised in F32 and
// rounded), with the lengths of its rows.
struct CacheView {
  ShardedTensor key;             // [B, S, K, D]
  ShardedTensor value;           // [B, S, K, D]
  ShardedTensor positions;       // [B, S] I32, as in KvCache
  std::vector<int64_t> lengths;  // [B]: positions below are valid ...
  std::vector<int64_t> starts;   // [B]: ... from here on
  bool lent = false;             // key and value are the cache's own buffers
};
CacheView ViewCache(const Machine& machine, const KvCache& cache, Dtype dtype);
// Returns a view without a copy if the cache's values have `dtype`. The cache
// has no keys and values until ReturnCache gets the view back.
CacheView LendCache(const Machine& machine, KvCache& cache, Dtype dtype);
void ReturnCache(CacheView view, KvCache& cache);

// A position to write, and one rank of the axes that split the length.
struct SlotQuery {
  int64_t position = 0;
  int64_t window = 0;  // above 0: slots are reused
  int64_t slots = 1;   // of a row, over all ranks
  int64_t parts = 1, rank = 0;
};
// Returns the rank's own slot for the position, or -1 if another rank owns it.
int64_t OwnSlot(const SlotQuery& query);

// The defaults of CacheSeam. AppendTokens, InsertRow and all functions that
// compute slots or views call the machine's CacheSeam, which tests replace.
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
  // Changes positions, lengths and starts of a view.
  std::function<void(const Machine&, const KvCache&, CacheView&)> view;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_CACHE_KV_CACHE_H_
