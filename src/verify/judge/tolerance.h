// When a sharded result is right.
//
// Against the dense float64 reference on the stored (rounded) inputs, with
// e_un the error of the same operation on one device, element by element:
//   e_sh <= 2 e_un + 16 u_f32 max|reference| + slack, and <= cap,
//   slack = 1.3 u_out |reference| where the output is in 16 bits,
// with the cap 1e-5, 1e-3, 1e-2 (F32, F16, BF16) on data of order one, that is
// times max(1, max|o|/2), and for F32 also times max(1, max|logit|/8); never
// below the slack of the largest output, whose own rounding it is. e_un is what
// goes beyond the slack, so that the rounding of an output's largest
// element forgives nothing in the others. Arithmetic narrower than float32 has
// its own reference and slack (dense/narrow.h). u is the unit roundoff. A
// non-finite element where the reference is finite fails, and NaN never passes.
//
// Why: logits are off by at most (D+2) u_f32 max|s| to first order, and the
// output by 2 ds + (S + 4n) u_f32 times max|v|, plus its own rounding.
#ifndef SHARDC_VERIFY_JUDGE_TOLERANCE_H_
#define SHARDC_VERIFY_JUDGE_TOLERANCE_H_

#include <algorithm>
#include <cstddef>
#include <limits>

#include "dense/array.h"
#include "exec/machine/buffer.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Both are [B, L, N, D].
ErrorOf CompareOutputs(const dense::Array& got, const dense::Array& reference);

double MaxAbs(const dense::Array& x);
double ErrorFloor(double max_reference);
double ErrorCap(Dtype dtype, double max_reference, double max_logit);

// NaN never passes.
bool Within(double error, double tolerance);

// What each element may be off by: `base` and its own slack, up to `cap`; that
// is raised by what ties alone may do to it.
struct Limits {
  dense::Array slack;  // [B, L, N, D], ties included
  double base = 0;
  double cap = std::numeric_limits<double>::infinity();
  dense::Array ties = {};  // [B, L, N, D]; empty: none

  double At(size_t i) const {
    const double own = ties.data.empty() ? 0 : ties.data[i];
    return std::min(base + slack.data[i], cap + own);
  }
};
// By how much `got` goes beyond the slack at most.
double BeyondSlack(const dense::Array& got, const dense::Array& reference,
                   const dense::Array& slack);
// The slack of an output that is rounded to `dtype`, above `more` (or none).
dense::Array SlackOf(Dtype dtype, const dense::Array& reference,
                     const dense::Array& more = {});

// Of the element that is furthest beyond its limit, or where none is beyond,
// that with the largest error: its error, and its limit in `allowed`.
struct Judgement {
  ErrorOf error;
  double allowed = 0;
};
Judgement JudgeOutput(const dense::Array& got, const dense::Array& reference,
                      const Limits& limits);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_TOLERANCE_H_
