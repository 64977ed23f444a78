// Injects faults into the key-value cache and into rotary embeddings. Some
// faults write to a wrong rank, slot or row. Others use a wrong number of
// tokens or wrong positions. Others rotate a token by a wrong angle or in wrong
// pairs.
//
// Example: with owner-off-by-one rank r writes the slots that rank r + 1 owns,
// so every token is written once, but by the wrong rank.
#include <algorithm>
#include <utility>

#include "exec/attention/rotary.h"
#include "exec/cache/kv_cache.h"
#include "source/size.h"
#include "verify/faults/injection.h"

namespace shardc::verify {
namespace {

using exec::CacheSeam;
using exec::CacheView;
using exec::KvCache;
using exec::LayoutError;
using exec::Machine;
using exec::OwnSlot;
using exec::ShardedTensor;
using exec::SlotQuery;

using Counts = std::vector<int64_t>;

// ---- Slots ----------------------------------------------------------------

// Returns the slot of a position on the rank that owns the slot, or -1 if no
// rank owns it.
int64_t SlotAtOwner(SlotQuery query) {
  for (query.rank = 0; query.rank < query.parts; ++query.rank) {
    const int64_t slot = OwnSlot(query);
    if (slot >= 0) return slot;
  }
  return -1;
}

int64_t SlotOfNext(const SlotQuery& given) {
  SlotQuery query = given;
  query.rank = (given.rank + 1) % given.parts;
  return OwnSlot(query);
}

int64_t SlotOnRankZero(const SlotQuery& query) {
  return query.rank == 0 ? SlotAtOwner(query) : -1;
}

int64_t SlotAfter(const SlotQuery& given) {
  SlotQuery query = given;
  query.position = (given.position + 1) % given.slots;
  return OwnSlot(query);
}

int64_t SlotInWindow(const SlotQuery& given) {
  SlotQuery query = given;
  if (given.window > 0) query.position %= given.window;
  return OwnSlot(query);
}

int64_t LastSlotAtMost(const SlotQuery& given) {
  SlotQuery query = given;
  query.position = std::min(given.position, given.slots - 1);
  return OwnSlot(query);
}

struct WrongSlot {
  Fault fault;
  int64_t (*slot)(const SlotQuery& query);
};
constexpr WrongSlot kWrongSlots[] = {
    {Fault::kCacheOwnerOff, SlotOfNext},
    {Fault::kCacheAllWrite, [](const SlotQuery& q) { return SlotAtOwner(q); }},
    {Fault::kCacheRankZeroWrites, SlotOnRankZero},
    {Fault::kCacheIndexPlusOne, SlotAfter},
    {Fault::kRollingCapacityIsWindow, SlotInWindow},
    {Fault::kCacheOverflowClamped, LastSlotAtMost},
};

// ---- Writes and insertions ------------------------------------------------

bool AppendByOne(Machine& machine, KvCache& cache, const ShardedTensor& key,
                 const ShardedTensor& value, const Counts& counts,
                 LayoutError& why) {
  Counts index = cache.index;
  if (!exec::RunAppend(machine, cache, key, value, counts, why)) return false;
  for (size_t b = 0; b < index.size(); ++b) {
    cache.index[b] = std::min(cache.index[b], index[b] + 1);
  }
  return true;
}

// Appends tokens as if the cache always had room for them.
bool AppendUnchecked(Machine& machine, KvCache& cache, const ShardedTensor& key,
                     const ShardedTensor& value, const Counts& counts,
                     LayoutError& why) {
  constexpr int64_t kEnough = int64_t{1} << 40;
  const int64_t length = std::exchange(cache.config.max_length, kEnough);
  const bool written = exec::RunAppend(machine, cache, key, value, counts, why);
  cache.config.max_length = length;
  return written;
}

bool InsertIntoNext(Machine& machine, const KvCache& from, KvCache& into,
                    int64_t slot, LayoutError& why) {
  Counts index = into.index, start = into.start;
  const int64_t next = (slot + 1) % into.config.batch;
  if (!exec::RunInsert(machine, from, into, next, why)) return false;
  const auto row = AsIndex(slot);
  index[row] = from.index[0];
  start[row] = from.start[0];
  into.index = std::move(index);
  into.start = std::move(start);
  return true;
}

bool InsertRowsOnly(Machine& machine, const KvCache& from, KvCache& into,
                    int64_t slot, LayoutError& why) {
  Counts index = into.index, start = into.start;
  const bool inserted = exec::RunInsert(machine, from, into, slot, why);
  into.index = std::move(index);
  into.start = std::move(start);
  return inserted;
}

// ---- Views ----------------------------------------------------------------

void ViewStaleRows(const Machine&, const KvCache& cache, CacheView& view) {
  for (int64_t& length : view.lengths) {
    length = std::min(length + 1, cache.config.max_length);
  }
}

void ViewSlotsAsPositions(const Machine& machine, const KvCache& cache,
                          CacheView& view) {
  if (!cache.Rolls()) return;
  for (int d = 0; d < machine.devices(); ++d) {
    exec::Buffer& local = view.positions.local[AsIndex(d)];
    const int64_t first = exec::LocalStart(machine.mesh(), view.positions.shape,
                                           view.positions.spec, d)[1];
    for (size_t i = 0; i < local.integers.size(); ++i) {
      if (local.integers[i] < 0) continue;
      local.integers[i] = static_cast<int32_t>(first + static_cast<int64_t>(i) %
                                                           local.shape[1]);
    }
  }
}

CacheSeam WrongCache(Fault fault) {
  CacheSeam out;
  for (const WrongSlot& wrong : kWrongSlots) {
    if (wrong.fault == fault) out.slot = wrong.slot;
  }
  if (fault == Fault::kCacheIndexByOne) out.append = AppendByOne;
  if (fault == Fault::kCacheOverflowClamped) out.append = AppendUnchecked;
  if (fault == Fault::kCacheSlotOff) out.insert = InsertIntoNext;
  if (fault == Fault::kCacheInsertKeepsLength) out.insert = InsertRowsOnly;
  if (fault == Fault::kCacheStaleRows) out.view = ViewStaleRows;
  if (fault == Fault::kRollingSlotAsPosition) out.view = ViewSlotsAsPositions;
  return out;
}

// ---- Rotations ------------------------------------------------------------

void FromOwnFirst(exec::Rotation& rotation) { rotation.shift = 0; }
void OneOn(exec::Rotation& rotation) { ++rotation.shift; }

void QueryOneOn(exec::Rotation& rotation) {
  if (rotation.what == exec::RotaryOf::kQuery) ++rotation.shift;
}

void OtherWayRound(exec::Rotation& rotation) {
  for (double& inverse : rotation.frequencies.inverse) inverse = -inverse;
}

void OtherPairs(exec::Rotation& rotation) {
  rotation.style = rotation.style == exec::RotaryStyle::kHalves
                       ? exec::RotaryStyle::kInterleaved
                       : exec::RotaryStyle::kHalves;
}

struct WrongRotation {
  Fault fault;
  void (*rotate)(exec::Rotation& rotation);
};
constexpr WrongRotation kWrongRotations[] = {
    {Fault::kRotaryLocal, FromOwnFirst},
    {Fault::kRotaryShiftedOnBoth, OneOn},
    {Fault::kRotaryQueryPlusOne, QueryOneOn},
    {Fault::kRotarySign, OtherWayRound},
    {Fault::kRotaryOtherPairs, OtherPairs},
};

}  // namespace

void InjectIntoCaches(Fault fault, exec::Seams& seams) {
  seams.Set(WrongCache(fault));
  for (const WrongRotation& wrong : kWrongRotations) {
    if (wrong.fault == fault) seams.Set(exec::RotarySeam{wrong.rotate});
  }
}

}  // namespace shardc::verify
