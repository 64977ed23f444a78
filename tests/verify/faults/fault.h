// The names of all faults that the self-test of attention, caches and pages
// injects. The functions that inject these faults are in injection.h. The
// faults of a model's training and decoding steps are in
// verify/step/step_faults.h.
#ifndef SHARDC_TESTS_VERIFY_FAULTS_FAULT_H_
#define SHARDC_TESTS_VERIFY_FAULTS_FAULT_H_

#include <cstdint>

namespace shardc::verify {

enum class Fault : uint16_t {
  kNone,
  // Faults of collectives, in any program.
  kGatherOrderReversed,
  kAllToAllDimsSwapped,
  kReduceScatterChunkOff,
  kReduceOneTwice,
  kReduceSkipsLast,
  kCollectiveSkipped,
  kCollectiveWrongAxis,
  kReduceOverReplicas,
  kOrderByMember,
  // Faults of a device's slice, that is, of what the device reads: maps of
  // heads, offsets, positions, scales.
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
  // Faults of outputs.
  kOutputLacksAxis,
  kOutputMisread,
  kOneElementOff,
  kReplicaDrifts,
  // Faults of rings and all_to_alls.
  kRingOneStepShort,
  kShiftAndIndexDisagree,
  kValueNotShifted,
  kIdsNotShifted,
  kExtraPpermute,
  kZigZagNoMirror,
  kZigZagReversed,
  kOutputLeftPermuted,
  kNoInverseAllToAll,
  kExchangeOverRing,
  kPositionsLeftBehind,
  kDiagonalBlockSkipped,
  // Faults in merging partial softmaxes.
  kSumOfNormalised,
  kMeanOfNormalised,
  kMergeWithoutMax,
  kSumNotMerged,
  kSinkPerPart,
  kReduceAfterExp,
  kReduceInBf16,
  // Faults of masks.
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
  // Faults of arithmetic.
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
  kDotMaximumOfHalf,
  kDotFewerBits,
  kMaskOverflowsSoftmax,
  // Faults of the key-value cache.
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
  // Faults of rotary embeddings.
  kRotaryLocal,
  kRotaryQueryPlusOne,
  kRotaryShiftedOnBoth,
  kRotarySign,
  kRotaryOtherPairs,
  // Faults of pages.
  kPagedCumulativeOff,
  kPagedTableTransposed,
  kPagedKeysAsValues,
  kPagedIdNotLocal,
  kPagedForeignClipped,
  kPagedRowsByModulo,
  kPagedSharedWritten,
  kPagedNeighbourScale,
  kPagedFirstScale,
  kPagedUneven127,
  kPagedPositiveWraps,
  kPagedZeroRowDivides,
  kPagedScaleNotCopied,
  kPagedDistributionOff,
  kLatentScale,
  kLatentRopeOnEach,
};

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_FAULTS_FAULT_H_
