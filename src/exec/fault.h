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
  kCollectiveWrongAxis,
  kReduceOverReplicas,
  kOrderByMember,
  // How slices meet: group maps, offsets, scales.
  kGroupModulo,
  kGroupNeighbour,
  kGroupNoOffset,
  kBiasFirstHeads,
  kMaskFirstRows,
  kLocalQueryPositions,
  kLocalKeyPositions,
  kScaleByLocalDim,
  kScaleTwice,
  kTileByLocalSize,
  kBlockTableOfRankZero,
  kIdsUnsplit,
  kOtherModesSpec,
  kRepeatTiled,
  // What leaves the program.
  kOutputLacksAxis,
  kOutputMisread,
  kOneElementOff,
  kReplicaDrifts,
  // Rings and exchanges.
  kRingOneStepShort,
  kShiftAndIndexDisagree,
  kValueNotShifted,
  kIdsNotShifted,
  kExtraPpermute,
  kZigZagNoMirror,
  kZigZagReversed,
  kOutputLeftPermuted,
  kNoInverseAllToAll,
  kDiagonalBlockSkipped,
  // Joining partial softmaxes.
  kSumOfNormalised,
  kMeanOfNormalised,
  kMergeWithoutMax,
  kSumNotMerged,
  kSinkPerPart,
  kReduceAfterExp,
  kReduceInBf16,
  // Masks.
  kCausalPlusOne,
  kCausalMinusOne,
  kLengthMinusOne,
  kStaleRows,
  kLeftPaddingAttends,
  kWindowPlusOne,
  kWindowMinusOne,
  kWindowSymmetric,
  kKeySegmentsOnly,
  kPaddingAttends,
  kCapAfterBias,
  kAdditiveMaskTwice,
  kMaskedRowZeroForMean,
  kDropoutLocal,
  kTopLeftCausal,
  kSinkHasValue,
  // Numerics.
  kNoMaxSubtraction,
  kSumNotRescaled,
  kBf16Accumulator,
  kTruncatingRound,
  kDoubleRound,
  kStateResetPerBlock,
  kNarrowerDtype,
  kDotNeighbourScale,
  kDotScaleOfPart,
  kDotScaleForgotten,
  kMaskOverflowsSoftmax,
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
  // Rotary embedding.
  kRotaryLocal,
  kRotaryQueryPlusOne,
  kRotaryShiftedAlike,
  kRotarySign,
  kRotaryOtherPairs,
  // Pages.
  kPagedCumulativeOff,
  kPagedTableTransposed,
  kPagedKeysAsValues,
  kPagedIdNotLocal,
  kPagedForeignClipped,
  kPagedRowsByModulo,
  kPagedSharedWritten,
  kLatentScale,
  kLatentRopeOnEach,
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_FAULT_H_
