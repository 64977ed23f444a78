// The dense reference for attention whose settings require narrower arithmetic
// than float32: products of operands rounded to few bits, or softmax in 16
// bits. Attention without these roundings is not a useful reference. With 4
// bits, the correct result differs from it by more than a tensor of zeros does.
// This reference therefore repeats the same roundings, from their definition,
// in double.
//
// Quantised products: groups of numbers are rounded to integers times a step. A
// group is a row of the query, a row of the key, one dim of the values of a
// block of keys, or a query's weights over the keys of a block. All numbers of
// a group share the step max |x| / (2^(bits-1) - 0.5). The magnitude of an
// integer is at most 2^(bits-1) - 1. Query, key and value are inputs and not
// computed, so their integers are exact.
//
// Softmax in a 16-bit dtype: logits and sinks are rounded to the dtype. So are
// distances from the maximum, exponentials, their sum and the quotients. A
// finite logit below the lowest finite float16, such as kMasked, becomes that
// number.
//
// Slack: logits and weights that reach these roundings have float32's error.
// This error may move a number across a tie, and the rounded number then
// differs by a step. Each number is therefore an interval that passes through
// every rounding. This is possible because all roundings are monotone. If no
// tie is near, the interval is as narrow as float32's error, so it hides no
// other error.
#ifndef SHARDC_DENSE_NARROW_H_
#define SHARDC_DENSE_NARROW_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dense/array.h"
#include "dense/attention.h"
#include "model/dtype.h"

namespace shardc::dense {

struct Narrow {
  int bits = 0;  // bits of the operands of products; 0 if they are not rounded
  Dtype softmax = Dtype::kF32;
  // The number of keys in a block, whose weights and values are quantised
  // together. If `block` is 0, or if `softmax` is not float32, all keys are one
  // block.
  int64_t block = 0;

  bool IsNarrow() const { return bits != 0 || softmax != Dtype::kF32; }
};

// Returns the inputs with query, key and value rounded to integers of `bits`
// bits times their steps. Values have one step for each block of `block` keys.
// If `block` is 0, all keys are one block.
Inputs QuantizeOperands(const Inputs& in, int bits, int64_t block);

struct NarrowResult {
  Array output;  // [B, T, H, Dv]
  Array slack;   // how much errors of float32 may change each output
};

// Computes attention for settings with narrow.IsNarrow(). If the shapes do not
// fit each other, returns nullopt and sets `why` to the reason.
std::optional<NarrowResult> NarrowAttention(const Inputs& in,
                                            const Options& options,
                                            const Narrow& narrow,
                                            std::string& why);

// Returns the number of F32, F16, BF16, F8_E4M3 or F8_E5M2 that is nearest to
// x; the even one if two are equally near. Returns infinity if x exceeds the
// largest number by half a step or more, even if the dtype has no infinity. For
// any other dtype, returns x.
double Nearest(Dtype dtype, double x);
void NearestOf(Dtype dtype, std::span<float> x);

// Converts a row to 8-bit integers and returns its scale, which is the largest
// |x|. A step is scale / 127.5. Each number becomes the nearest whole number of
// steps, from -128 to 127. The arithmetic is in float32, or in double if the
// number of steps from 0 to 1 overflows float32. The scale of a row of zeros is
// 0. A row with a NaN has the scale NaN. A row with an infinite number but no
// NaN has an infinite scale. All integers of these rows are 0.
float ToInt8(std::span<const float> x, std::span<int8_t> integers);
float FromInt8(int8_t integer, float scale);
// Replaces each number of a row by the number that is read back after ToInt8().
void StoreInt8(std::span<float> x);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_NARROW_H_
