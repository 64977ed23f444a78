// Attention with arithmetic that is narrower than float32: matmuls of operands
// that are quantised to few bits, and a softmax in 16 bits.
//
// Quantised matmuls: numbers are quantised in groups, which are called rows
// here. A number x is stored as x / step, rounded to an integer, where the step
// of the row is max |x| / (2^(bits-1) - 0.5). The largest integer is
// 2^(bits-1) - 1. Products of integers are added without rounding. In the
// logits q.k, a row is the vector of one token and head. In the output p.v, p
// are the softmax weights. A row of p has one query's weights for the keys of
// one block, and a row of v has one dim (such as dim 5) of the values of these
// keys.
//
// If D is sharded, the largest number of each row is all-reduced first, so that
// all shards of a row have the same step. In a group of n devices, this sends
// 8(n-1) (B_loc T_loc H_loc + B_loc S K_loc) bytes in total, where B_loc is the
// part of B on one device. The integer sums are then all-reduced. The bits
// equal those of the unsharded run.
//
// Softmax in 16 bits: the logits and sinks are rounded to the softmax dtype.
// The differences of the logits from the maximum, the exponentials, their sum
// and the quotients are rounded as well. The sum is accumulated in float32 and
// then rounded. A finite logit below the dtype's range becomes the dtype's
// lowest finite number, since a row of only -inf would result in NaN.
#ifndef SHARDC_EXEC_ATTENTION_NARROW_H_
#define SHARDC_EXEC_ATTENTION_NARROW_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/attention/attention_loops.h"
#include "exec/attention/staging.h"
#include "exec/machine/machine.h"
#include "model/dtype.h"

namespace shardc::exec {

// Returns max |x| over the last dimension of x [B, L, N, D], as F32 [B, L, N].
Buffer LargestOfRows(const Buffer& x,
                     const Arithmetic& arithmetic = kRightArithmetic);

// Returns products q.k as integers, I32 [B, H, T, S]. `query_largest` [B, T, H]
// and `key_largest` [B, S, K] are the largest magnitudes of the rows. If D is
// sharded, they are the maxima over all shards of a row.
Buffer IntegerScores(const LocalSlice& slice, const Buffer& query_largest,
                     const Buffer& key_largest, int bits);
// Returns the logits in F32: scale * sum * query step * key step. A row's step
// is computed from its largest number and `bits`.
Buffer ScaledScores(const LocalSlice& slice, const Buffer& sums,
                    const Buffer& query_largest, const Buffer& key_largest,
                    int bits);
// Returns each device's logits from quantised queries and keys. The integer
// sums are all-reduced over `dim_axes`, the axes that shard D.
PerDevice QuantisedScores(Machine& machine, const Slices& slices,
                          const AxisGroup& dim_axes, int bits);

// Replaces the logits in `row` by their softmax weights. Cap, bias and masks
// must have been applied to the logits. The sinks are added to the denominator
// only. Returns false, and writes zeros, if all logits and sinks are -inf.
bool SoftmaxIn(Dtype dtype, std::span<const float> sinks, std::span<float> row,
               const Arithmetic& arithmetic = kRightArithmetic);

struct Narrow {
  int bits = 0;  // bits of each operand; 0: not quantised
  // F32 or a 16-bit dtype. A 16-bit softmax needs all keys in one call.
  Dtype softmax_dtype = Dtype::kF32;
  int64_t block_k = 0;  // keys in a block; 0: all keys are one block
};
// Like AttendScores, but with weights in the softmax dtype and a quantised
// product of weights and values. If the softmax dtype is not F32, also adds the
// sinks [sinks, H] and returns true. Otherwise returns false, and the caller
// must add the sinks.
bool AttendNarrow(const LocalSlice& slice, const Buffer& scores,
                  const Narrow& narrow, const Buffer* sinks,
                  SoftmaxState& state);

// The kind of a Python scalar. A scalar has no width of its own: the result has
// the width of the other operand.
enum class WeakKind : uint8_t { kInt, kFloat };

struct PromoteOptions {
  // If false, 64-bit results become 32-bit, as JAX does without jax_enable_x64.
  bool x64 = false;
  bool inexact = true;  // if true, integer results become F32
};

// Returns the common dtype. Returns nullopt if JAX defines no common dtype (for
// example for two different 8-bit floats, or an int4 with an int8), if shardc
// does not have the dtype, or if there are no operands.
std::optional<Dtype> CanonicalDtype(std::span<const Dtype> operands,
                                    PromoteOptions options = {});
std::optional<Dtype> CanonicalDtype(std::span<const Dtype> operands,
                                    std::span<const WeakKind> scalars,
                                    PromoteOptions options);
// Returns the common dtype of a and b, with `x64` true and `inexact` false.
std::optional<Dtype> Promote(Dtype a, Dtype b);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_NARROW_H_
