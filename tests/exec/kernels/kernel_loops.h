// The kernels of kernels.h as slow, obvious loops, in double: their oracle.
#ifndef SHARDC_TESTS_EXEC_KERNELS_KERNEL_LOOPS_H_
#define SHARDC_TESTS_EXEC_KERNELS_KERNEL_LOOPS_H_

#include <cstdint>
#include <vector>

#include "exec/kernels/kernels.h"

namespace shardc::exec {

struct LoopResult {
  std::vector<double> out;  // [G*T, Dv], divided
  std::vector<double> lse;  // [G*T]
  // [G*T, Dv]: as `out`, of the magnitudes of the values.
  std::vector<double> magnitude;
};

// Attention of the slice alone, from the definition.
LoopResult LoopAttention(const AttentionSlice& slice);

}  // namespace shardc::exec

#endif  // SHARDC_TESTS_EXEC_KERNELS_KERNEL_LOOPS_H_
