// The key-value cache through its trace: prefill writes, insertion into
// slots, decode steps, and the moves between the layouts of those modes.
//
// Every row of the batch has its own length. Position p of a row is at slot p
// of dimension 1, or at p mod max_length where the cache rolls. Index and
// start are small and the same on all devices.
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
  // Above 0: only that many last positions are ever attended to, and slots
  // are used again: p is at slot p mod S.
  int64_t window = 0;
};

struct KvCache {
  CacheConfig config;
  ShardedTensor key;    // [B, S, K, D]
  ShardedTensor value;  // [B, S, K, D]
  // I8 only: F32 [B, S, K], the largest |x| of a row; split as the values
  // are, save for D.
  ShardedTensor key_scale;
  ShardedTensor value_scale;
  // With a window only: I32 [B, S], which position a slot holds, -1 for none.
  ShardedTensor positions;
  std::vector<int64_t> index;  // [B]: next position to write
  std::vector<int64_t> start;  // [B]: first valid position (left padding)

  const Spec& spec() const { return key.spec; }
  bool IsQuantized() const { return config.dtype == Dtype::kI8; }
  bool Rolls() const { return config.window > 0; }
};

// All slots empty. Nothing where the sizes or the spec of [B, S, K, D] cannot
// be used.
std::optional<KvCache> MakeCache(const SimMesh& mesh, const CacheConfig& config,
                                 const Spec& spec, Complaint& why);

// Appends n tokens to every row, key and value [B, n, K, D] in F32, whatever
// their layout: they are first moved to the cache's, with the length whole,
// which is charged. Where the length is split each position is written by the
// device that owns it, and by no other. With `counts` [B] row b takes only
// the first counts[b] of its tokens. False, and nothing written, where a
// token has no slot.
bool AppendTokens(Machine& machine, KvCache& cache, const ShardedTensor& key,
                  const ShardedTensor& value,
                  const std::vector<int64_t>& counts, Complaint& why);

// Copies the only row of `from` to row `slot`, with its length and start.
// The sizes but B agree. Only those who own the slot keep the row; moving it
// to their layout is charged.
bool InsertRow(Machine& machine, const KvCache& from, KvCache& into,
               int64_t slot, Complaint& why);

// To the layout of another mode; every part that moves is charged.
bool MoveCache(Machine& machine, KvCache& cache, const Spec& spec,
               Complaint& why);

// The cache as attention reads it: values of `dtype` (dequantised in F32 and
// rounded), with the lengths of its rows.
struct CacheView {
  ShardedTensor key;             // [B, S, K, D]
  ShardedTensor value;           // [B, S, K, D]
  ShardedTensor positions;       // [B, S] I32, as in KvCache
  std::vector<int64_t> lengths;  // [B]: positions below are valid ...
  std::vector<int64_t> starts;   // [B]: ... from here on
  bool lent = false;             // key and value are the cache's own
};
CacheView ViewCache(const Machine& machine, const KvCache& cache, Dtype dtype);
// The same without a copy where the cache's values are of `dtype` as they
// lie: until the view is returned the cache is without them.
CacheView LendCache(const Machine& machine, KvCache& cache, Dtype dtype);
void ReturnCache(CacheView view, KvCache& cache);

// A position that is to be written, and one rank along the length.
struct SlotQuery {
  int64_t position = 0;
  int64_t window = 0;  // above 0: slots are used again
  int64_t slots = 1;   // of a row, on all ranks
  int64_t parts = 1, rank = 0;
};
// The rank's own slot for it; -1 where another rank owns it.
int64_t OwnSlot(const SlotQuery& query);

// AppendTokens and InsertRow as they stand; both go through the machine's
// CacheSeam, as do all slots that are written and all views.
bool RunAppend(Machine& machine, KvCache& cache, const ShardedTensor& key,
               const ShardedTensor& value, const std::vector<int64_t>& counts,
               Complaint& why);
bool RunInsert(Machine& machine, const KvCache& from, KvCache& into,
               int64_t slot, Complaint& why);
struct CacheSeam {
  std::function<int64_t(const SlotQuery&)> slot = OwnSlot;
  std::function<bool(Machine&, KvCache&, const ShardedTensor&,
                     const ShardedTensor&, const std::vector<int64_t>&,
                     Complaint&)>
      append = RunAppend;
  std::function<bool(Machine&, const KvCache&, KvCache&, int64_t, Complaint&)>
      insert = RunInsert;
  // Positions, lengths and starts of a view.
  std::function<void(const Machine&, const KvCache&, CacheView&)> view;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_CACHE_KV_CACHE_H_
