// Attention whose arithmetic is narrower than float32: products of operands
// cut to few bits, and softmax in 16 bits.
//
// Quantised matmuls. A row of integers stands for integer * step, step =
// max |x| / (2^(bits-1) - 0.5), with integers up to 2^(bits-1) - 1 whose
// products add up exactly. For q.k rows are a token's D numbers of one head;
// for p.v they are a query's weights and, for each dim, a head's values, over
// the keys of one block.
//
// Where D is split a row's largest number is all-reduced first, else each part
// would have a step of its own; integer sums are all-reduced then, so that the
// bits are the unsharded run's. Sent by a group of n, in all, beside the
// logits: 2(n-1) * 4 (B_loc T_loc H_loc + B_loc S K_loc).
//
// Softmax in a dtype: logits (sinks too) are rounded to it; so are their
// distance from the maximum, its exponential, the sum, which adds up in
// float32, and the quotient. A masked logit is at least the dtype's lowest
// number: -inf in all of a row would make it NaN.
#ifndef SHARDC_EXEC_ATTENTION_NARROW_H_
#define SHARDC_EXEC_ATTENTION_NARROW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exec/attention/attention_loops.h"
#include "exec/attention/staging.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

// max |x| of the last dimension: [B, L, N, D] to F32 [B, L, N].
Buffer LargestOfRows(const Buffer& x,
                     const Arithmetic& arithmetic = kRightArithmetic);

// Sums of integer products, I32 [B, H, T, S]; `query_largest` [B, T, H] and
// `key_largest` [B, S, K] are those of whole rows.
Buffer IntegerScores(const LocalSlice& slice, const Buffer& query_largest,
                     const Buffer& key_largest, int bits);
// scale * sum * both steps, F32.
Buffer ScaledScores(const LocalSlice& slice, const Buffer& sums,
                    const Buffer& query_largest, const Buffer& key_largest,
                    int bits);
// All devices' scaled quantised matmuls, D split over `dim_axes`.
PerDevice QuantisedScores(Machine& machine, const Slices& slices,
                          const AxisGroup& dim_axes, int bits);

// Weights of a row of finished logits and, after them, its sinks' logits:
// `row` becomes the weights of the logits, false (and zeros) where nothing is
// seen.
bool SoftmaxIn(Dtype dtype, std::span<const float> sinks, std::span<float> row,
               const Arithmetic& arithmetic = kRightArithmetic);

struct Narrow {
  int bits = 0;                       // 0: whole products
  Dtype softmax_dtype = Dtype::kF32;  // else over all keys at once
  int64_t block_k = 0;                // keys; 0: all
};
// AttendScores with weights in the softmax dtype and a quantised p.v. Sinks
// [sinks, H] are absorbed here where the softmax dtype is not F32; true says
// that they were.
bool AttendNarrow(const LocalSlice& slice, const Buffer& scores,
                  const Narrow& narrow, const Buffer* sinks,
                  SoftmaxState& state);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_NARROW_H_
