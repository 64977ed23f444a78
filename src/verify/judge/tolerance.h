// When a sharded result is right.
//
// Against the dense float64 reference on the stored (rounded) inputs, with
// e_un the error of the same operation on one device:
//   e_sh <= 2 e_un + floor,
//   floor = (2 u_out + 16 u_f32 + 2 u_softmax) max|reference|
// (u_softmax only where the softmax is in 16 bits),
// and never above the absolute cap 1e-5, 1e-3, 1e-2 (F32, F16, BF16) on data
// of order one, that is times max(1, max|o|/2), and for F32 also times
// max(1, max|logit|/8). Arithmetic narrower than float32 raises the cap by
// what it implies (narrow_bound.h). u is the unit roundoff. A non-finite
// element where the reference is finite fails, and NaN never passes.
//
// Why: logits are off by at most (D+2) u_f32 max|s| to first order, and the
// output by 2 ds + (S + 4n) u_f32 times max|v|, plus its own rounding.
#ifndef SHARDC_VERIFY_JUDGE_TOLERANCE_H_
#define SHARDC_VERIFY_JUDGE_TOLERANCE_H_

#include "exec/kernels/dense_array.h"
#include "exec/machine/buffer.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Both are [B, L, N, D].
ErrorOf CompareOutputs(const exec::DenseArray& got,
                       const exec::DenseArray& reference);

double MaxAbs(const exec::DenseArray& x);
double ErrorFloor(Dtype dtype, double max_reference,
                  Dtype softmax = Dtype::kF32);
double ErrorCap(Dtype dtype, double max_reference, double max_logit);

// NaN never passes.
bool Within(double error, double tolerance);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_TOLERANCE_H_
