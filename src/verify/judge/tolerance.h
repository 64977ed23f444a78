// The error that a sharded result may have. The error of an element is its
// distance from the dense float64 reference on the stored (rounded) inputs. Its
// tolerance is
//
//   min(2 e_un + 16 u_f32 max|reference| + slack, cap)
//
// Here u_f32 and u_out are the unit roundoffs of float32 and of the output's
// dtype, and max is over all elements.
//
// The slack allows for the rounding of one element. If the output has 16 bits,
// it is 1.3 u_out |reference|. For F16 it is larger by 2^-24, the step of
// subnormal numbers. Otherwise it is 0. Arithmetic narrower than float32 has
// its own reference and slack (dense/narrow.h).
//
// The term e_un is measured: the same operation is run on one device. e_un is
// the largest amount by which the error of one of its elements exceeds the
// slack. So the rounding of the largest element does not widen the tolerance of
// other elements.
//
// The cap limits the tolerance, even if e_un is large. For data of order one,
// it is 1e-5 (F32), 1e-3 (F16) or 1e-2 (BF16). It is multiplied by max(1,
// max|reference|/2), and for F32 also by max(1, max|logit|/8). For 16 bits it
// is at least 1.3 u_out max|reference|, the rounding of the largest output.
//
// An element that is not finite fails if the reference is finite. NaN never
// passes.
//
// These terms follow from the errors of attention to first order. Let D be the
// head dimension, S the number of keys, n the number of partial softmaxes that
// are merged, s the logits and v the values. The error of logits is at most ds
// = (D+2) u_f32 max|s|. The error of the output is at most (2 ds + (S + 4n)
// u_f32) max|v|, plus its own rounding.
#ifndef SHARDC_VERIFY_JUDGE_TOLERANCE_H_
#define SHARDC_VERIFY_JUDGE_TOLERANCE_H_

#include <algorithm>
#include <cstddef>
#include <limits>

#include "dense/array.h"
#include "exec/machine/buffer.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// CompareOutputs compares arrays [B, L, N, D]. The three functions after it
// compute terms of the tolerance.
ErrorOf CompareOutputs(const dense::Array& got, const dense::Array& reference);

double MaxAbs(const dense::Array& x);
double ErrorFloor(double max_reference);
double ErrorCap(Dtype dtype, double max_reference, double max_logit);

// Returns true if error <= tolerance. Returns false if one of them is NaN.
bool Within(double error, double tolerance);

// The tolerance of each element: `base` plus the element's slack, but at most
// `cap`. A value halfway between two numbers may be rounded either way (a tie).
// An element's cap grows by the largest effect of such ties on this element.
struct Limits {
  // The slack of each element [B, L, N, D], which includes the effect of ties.
  // If it is empty, the slack is 0.
  dense::Array slack;
  double base = 0;
  double cap = std::numeric_limits<double>::infinity();
  // Effect of ties on each element [B, L, N, D]; empty: no ties.
  dense::Array ties = {};

  double At(size_t i) const {
    const double own = ties.data.empty() ? 0 : ties.data[i];
    const double more = slack.data.empty() ? 0 : slack.data[i];
    return std::min(base + more, cap + own);
  }
};
// Returns the largest amount by which an error of `got` exceeds its slack, or 0
// if no error exceeds its slack.
double BeyondSlack(const dense::Array& got, const dense::Array& reference,
                   const dense::Array& slack);
// Returns the slack of an output that is rounded to `dtype`. `more` is the
// slack before the rounding; empty means no slack. Rounding to F32 adds no
// slack.
dense::Array SlackOf(Dtype dtype, const dense::Array& reference,
                     const dense::Array& more = {});

// The error and the tolerance (`allowed`) of one element: the element whose
// error exceeds its tolerance by the largest factor. If no error exceeds its
// tolerance, it is the element with the largest error. If an element is not
// finite where the reference is finite, the first such element is reported, and
// `allowed` is Limits::base.
struct Judgement {
  ErrorOf error;
  double allowed = 0;
};
Judgement JudgeOutput(const dense::Array& got, const dense::Array& reference,
                      const Limits& limits);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_TOLERANCE_H_
