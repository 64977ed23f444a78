// Chooses one of the targets (instruction sets) for which Highway has compiled
// a function. The processor is queried at the first call. Highway's own
// detection is not used, because its library measures clocks when it is loaded,
// which costs 3 ms in every run of every command. For a function Fold that is
// compiled for all targets, write:
//
//   SIMD_EXPORT(Fold);                  // makes a table of Fold's versions
//   SIMD_DISPATCH(Fold)(bytes, count);  // calls the version of the best target
#ifndef SHARDC_FLOATS_TARGETS_SIMD_H_
#define SHARDC_FLOATS_TARGETS_SIMD_H_

#include <cstddef>
#include <cstdint>

namespace shardc {

// Returns the targets that this processor can run, as bits. As in Highway, the
// lowest bit is the best target.
int64_t DetectedTargets();
// Allows only these targets in later calls, for tests. 0 allows all detected
// targets again.
void UseTargets(int64_t targets);

// Returns whether the processor is an x86 with SSE 4.2, which has an
// instruction for CRC-32C.
bool HasSse42();

// Returns the index of the best target that the processor can run, in a table
// that SIMD_EXPORT has made. The table lists the targets whose bits are in
// `compiled` from best to worst, and the portable target last.
size_t TargetIndex(int64_t compiled);

}  // namespace shardc

#define SIMD_EXPORT(FUNCTION)                                  \
  static decltype(&HWY_STATIC_DISPATCH(FUNCTION))              \
      const FUNCTION##Targets[HWY_MAX_DYNAMIC_TARGETS + 2] = { \
          nullptr, HWY_CHOOSE_TARGET_LIST(FUNCTION),           \
          HWY_CHOOSE_FALLBACK(FUNCTION)}
#define SIMD_DISPATCH(FUNCTION) \
  (*FUNCTION##Targets[shardc::TargetIndex(HWY_TARGETS)])

#endif  // SHARDC_FLOATS_TARGETS_SIMD_H_
