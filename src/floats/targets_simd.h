// Which of the targets that Highway compiles for is run. It is asked of the
// processor here, at the first call: Highway's own detection is in a library
// that measures clocks as it is loaded, 3 ms in every run of every command.
//
//   SIMD_EXPORT(Fold);  // once, beside the function of all targets
//   SIMD_DISPATCH(Fold)(bytes, count);
#ifndef SHARDC_FLOATS_TARGETS_SIMD_H_
#define SHARDC_FLOATS_TARGETS_SIMD_H_

#include <cstddef>
#include <cstdint>

namespace shardc {

// Sets of targets are Highway's, a bit each; the lowest is the best.
int64_t DetectedTargets();
// Those to run from now on instead, for tests; 0: those detected.
void UseTargets(int64_t targets);

// In the tables below, where those `compiled` are; the last place is of what
// runs everywhere.
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
