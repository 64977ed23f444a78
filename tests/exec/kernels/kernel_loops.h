// Attention as slow and simple loops in double, with which the kernels of
// kernels.h are compared.
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

// Computes attention over one slice, from the definition.
LoopResult LoopAttention(const AttentionSlice& slice);

}  // namespace shardc::exec

#endif  // SHARDC_TESTS_EXEC_KERNELS_KERNEL_LOOPS_H_
