// Defines AdjustRow of prefill_bf16.h, which applies cap, bias and mask to a
// row of scores. The work is done by AdjustScores of attention_simd-inl.h,
// which Highway compiles once for each instruction set. AdjustRow calls the
// AdjustScores of the instruction set that is selected at run time. Code that
// is compiled only once therefore calls AdjustRow.
#include "exec/kernels/kernels.h"
#include "exec/kernels/prefill_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/adjust_row_simd.cc"
#include <hwy/cache_control.h>
// foreach_target.h must precede highway.h. It includes this file once more for
// each instruction set.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/kernels/attention_simd-inl.h"
#include "floats/targets_simd.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

void Adjust(const AttentionSlice& in, int64_t g, int64_t t, int64_t first,
            int64_t count, float* scores) {
  AdjustScores(in, g, t, first, count, scores);
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc::exec {

SIMD_EXPORT(Adjust);

void AdjustRow(const AttentionSlice& slice, int64_t g, int64_t t, int64_t first,
               int64_t count, float* scores) {
  SIMD_DISPATCH(Adjust)(slice, g, t, first, count, scores);
}

}  // namespace shardc::exec
#endif  // HWY_ONCE
