// Attention whose settings require narrower arithmetic than float32, in double:
// products of operands rounded to few bits, and softmax in 16 bits. What is
// right then is not attention of the whole inputs, from which 4 bits lead
// further than zeros are, but the same roundings done again, from the
// definition.
//
// Quantised products. A row of query, of key, and for each dim the values of a
// block of keys are integers times step, step = max |x| / (2^(bits-1) - 0.5),
// at most 2^(bits-1) - 1 of them; so are a query's weights over the keys of a
// block. Operands are stored numbers, so their integers are exact.
//
// Softmax in a dtype. Logits and sinks are rounded to it (a masked one to no
// less than its lowest number), and so are distances from the maximum,
// exponentials, their sum and the quotients.
//
// Logits and weights reach these roundings with float32's error, which may
// take one to the other side of a tie. What that can do is followed as an
// interval through every rounding, all of which are monotone: where no tie is
// near, the interval is as narrow as float32, so that nothing is forgiven.
#ifndef SHARDC_DENSE_NARROW_H_
#define SHARDC_DENSE_NARROW_H_

#include <cstdint>
#include <optional>
#include <string>

#include "dense/array.h"
#include "dense/attention.h"
#include "model/dtype.h"

namespace shardc::dense {

struct Narrow {
  int bits = 0;  // of the products' operands; 0: whole
  Dtype softmax = Dtype::kF32;
  // Weights and values are quantised in blocks of so many keys; 0: in one.
  int64_t block = 0;

  bool IsNarrow() const { return bits != 0 || softmax != Dtype::kF32; }
};

// Query, key and value as integers of `bits` times their steps: values over
// blocks of keys, of all of them where `block` is 0.
Inputs CutOperands(const Inputs& in, int bits, int64_t block);

struct NarrowResult {
  Array output;  // [B, T, H, Dv]
  Array slack;   // how far ties may take an element from it
};

// Where narrow.IsNarrow(). Nothing, and why, where shapes do not fit.
std::optional<NarrowResult> NarrowAttention(const Inputs& in,
                                            const Options& options,
                                            const Narrow& narrow,
                                            std::string& why);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_NARROW_H_
