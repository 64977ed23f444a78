// How far arithmetic narrower than float32 may take an output from attention
// of the whole inputs, per row and at its worst.
//
// Logits. A product cut to few bits is off by at most
//   sum |q| k_step/2 + sum |k| q_step/2 + D q_step k_step / 4,
//   step = max |x| / (2^(bits-1) - 0.5),
// times |scale|; the cap is no steeper than 1. Softmax in a dtype of roundoff u
// adds 3 u S: a rounded logit and its rounded distance from the maximum, S the
// largest |logit| that the row sees. Together d; the weights then move by
// tanh(d/2) in total variation, so the output by at most 2 tanh(d/2) max |v|.
//
// Weights. Rounded exponentials, their rounded sum and the rounded quotient
// are off by 5 u relatively, and by keys * 2^-24 in float16, whose small
// exponentials are subnormal: times max |v|.
//
// Product of weights p and values, cut over n keys:
//   v_step/2 + sum |v| p_step/2 + n p_step v_step / 4, p_step from the row's
// largest weight, which is at most e^(2d) times the true one, and 1. Blocks
// have smaller steps. All of it is divided by 1 - dropout.
#ifndef SHARDC_VERIFY_NARROW_BOUND_H_
#define SHARDC_VERIFY_NARROW_BOUND_H_

#include "exec/attention_problem.h"
#include "exec/reference.h"

namespace shardc::verify {

bool IsNarrow(const exec::OperationSettings& settings);

// The largest over all rows; 0 where nothing is narrow.
double NarrowBound(const exec::ReferenceInputs& in,
                   const exec::AttentionOptions& options,
                   const exec::OperationSettings& settings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_NARROW_BOUND_H_
