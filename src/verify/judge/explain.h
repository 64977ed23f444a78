// The messages for a failed case. A message names the tensor, the devices, the
// first positions, the axis that causes the error, and what to change. If the
// bytes sent differ from the formula, the message has both numbers.
#ifndef SHARDC_VERIFY_JUDGE_EXPLAIN_H_
#define SHARDC_VERIFY_JUDGE_EXPLAIN_H_

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "dense/array.h"
#include "exec/machine/buffer.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns the rules on the tensors' layouts that a case violates, in one error,
// or nullopt. The rules are:
// - All tensors have the same batch axes.
// - The head axes of the query begin with those of the key. Most kernels on
//   local slices require equal head axes.
// - Key and value have the same head axes and the same length axes.
// - Query and key have the same axes of the head dimension.
std::optional<exec::LayoutError> LayoutFault(const Case& test);

// Adds to `result` an explanation of a wrong output. `got` is the output and
// `reference` the correct output, both [B, T, H, D].
void ExplainNumbers(const Case& test, const dense::Array& got,
                    const dense::Array& reference, CaseResult& result);

// Returns the maximum absolute error of each device's shard of the output,
// indexed by device.
std::vector<double> DeviceErrors(const Case& test, const dense::Array& got,
                                 const dense::Array& reference);

// Returns a message about the difference between the bytes in the ledger
// (`sent`) and the bytes by formula (`expected`). It is empty if they agree.
std::string BytesDiffer(const exec::SimMesh& mesh, const exec::SentBytes& sent,
                        const exec::SentBytes& expected);
// Returns a message if the bytes that ranks really sent differ from the bytes
// that the ledger has recorded, and an empty text if they are equal. An
// implementation of all_reduce or broadcast may divide the bytes differently
// between devices, so for these only the sum over all devices is compared.
std::string MovedDiffers(const exec::SimMesh& mesh, const exec::Ledger& ledger);

// Returns the number as text such as "1.23e-04", in every locale.
std::string ErrorText(double value);

// If the operation cannot run at the case's sizes, returns a result with status
// unsupported and the same message as a run. Returns nullopt if the operation
// could run. Also returns nullopt if the case has a table of blocks that the
// operation does not support: only a run, which has the table, reports this.
std::optional<CaseResult> RefusalAt(const Case& test);

// Returns the bytes that devices send in the case, by the operation's formula.
exec::SentBytes SentAt(const Case& test);

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

#endif  // SHARDC_VERIFY_JUDGE_EXPLAIN_H_
