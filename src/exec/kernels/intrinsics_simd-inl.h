// Includes the intrinsics of x86-64 without two warnings: GCC 12 reports
// uninitialised variables in its own AVX-512 intrinsics.
#ifndef SHARDC_EXEC_KERNELS_INTRINSICS_SIMD_INL_H_
#define SHARDC_EXEC_KERNELS_INTRINSICS_SIMD_INL_H_

#include <hwy/base.h>

HWY_DIAGNOSTICS(push)
#if HWY_COMPILER_GCC && !HWY_COMPILER_CLANG
HWY_DIAGNOSTICS_OFF(disable : 4701, ignored "-Wuninitialized")
HWY_DIAGNOSTICS_OFF(disable : 4703, ignored "-Wmaybe-uninitialized")
#endif
#include <immintrin.h>  // IWYU pragma: export
HWY_DIAGNOSTICS(pop)

#endif  // SHARDC_EXEC_KERNELS_INTRINSICS_SIMD_INL_H_
