// How far arithmetic narrower than float32 may take an output from attention
// of the whole inputs, by row.
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
// Product of weights p and values, cut over the keys:
//   v_step/2 + sum (|v| + v_step/2) min(p, p_step/2),
// since a weight below half a step becomes 0; each p, and the row's largest,
// which gives p_step, is at most e^(2d) times the true one, and 1. Blocks have
// smaller steps. All of it is divided by 1 - dropout.
//
// Against attention of the operands as they were cut, only the weights are cut
// still: sum |v| min(p, p_step/2) and the softmax's rounding are left, which
// shows a wrong step of one operand.
#ifndef SHARDC_VERIFY_JUDGE_NARROW_BOUND_H_
#define SHARDC_VERIFY_JUDGE_NARROW_BOUND_H_

#include "exec/attention/attention_problem.h"
#include "exec/attention/reference.h"

namespace shardc::verify {

bool IsNarrow(const exec::OperationSettings& settings);

// Query, key and value as integers of `bits` times their steps: values over
// blocks of keys, of all of them where `block` is 0.
exec::ReferenceInputs CutOperands(const exec::ReferenceInputs& in, int bits,
                                  int64_t block);

// By row, [B, T, H, 1]; empty where nothing is narrow. `cut`: `in` are
// CutOperands.
exec::DenseArray NarrowBounds(const exec::ReferenceInputs& in,
                              const exec::AttentionOptions& options,
                              const exec::OperationSettings& settings,
                              bool cut = false);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_NARROW_BOUND_H_
