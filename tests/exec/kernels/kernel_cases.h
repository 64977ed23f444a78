// Cases of the attention kernels: a slice with random numbers in each dtype.
#ifndef SHARDC_TESTS_EXEC_KERNELS_KERNEL_CASES_H_
#define SHARDC_TESTS_EXEC_KERNELS_KERNEL_CASES_H_

#include <cstdint>
#include <random>
#include <vector>

#include "exec/kernels/kernels.h"

namespace shardc::exec {

struct SliceShape {
  int64_t heads, rows, keys, dim, value_dim;
};

// The slice and the arrays that its pointers refer to. Rows of keys and values
// alternate with rows of another head, so that strides matter.
struct KernelCase {
  AttentionSlice slice;
  std::vector<float> query, key, value, key_scale, value_scale, bias;
  std::vector<uint16_t> query16, key16, value16;
  std::vector<int8_t> key8, value8;
  std::vector<int32_t> begin, end;
  std::vector<uint8_t> mask;
};

// Sets `v` to `count` normally distributed numbers, times `size`.
void FillNormal(std::vector<float>& v, int64_t count, std::mt19937& random,
                float size = 1);

// Returns a case whose keys and values have the dtype. The query has it too,
// or float32 if it is int8.
KernelCase MakeCase(const SliceShape& shape, Dtype dtype, uint32_t seed);

// Lets row t, at position S - T + t, see the last `window` keys.
void SetWindow(KernelCase& c, int64_t window);

}  // namespace shardc::exec

#endif  // SHARDC_TESTS_EXEC_KERNELS_KERNEL_CASES_H_
