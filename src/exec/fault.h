// Faults that a self-test plants into programs, to show that verification
// notices them. Every hook asks `machine.Planted(...)`; no other run has one.
#ifndef SHARDC_EXEC_FAULT_H_
#define SHARDC_EXEC_FAULT_H_

#include <cstdint>

namespace shardc::exec {

enum class Fault : uint16_t {
  kNone,
  // Collectives, whoever calls them.
  kGatherOrderReversed,
  kAllToAllDimsSwapped,
  kReduceScatterChunkOff,
  kReduceOneTwice,
  kReduceSkipsLast,
  kCollectiveSkipped,
  kCollectiveWrongGroup,
  kReplicasDiffer,
  // The key-value cache.
  kCacheOwnerOff,
  kCacheAllWrite,
  kCacheRankZeroWrites,
  kCacheIndexPlusOne,
  kCacheIndexByOne,
  kCacheOverflowClamped,
  kCacheStaleRows,
  kCacheSlotOff,
  kCacheInsertKeepsLength,
  kCacheNeighbourScale,
  kCacheFirstScale,
  kCacheUneven127,
  kCachePositiveWraps,
  kCacheZeroRowDivides,
  kRollingCapacityIsWindow,
  kRollingSlotAsPosition,
  kCacheMoveSkipped,
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_FAULT_H_
