// Attention whose arithmetic is asked to be narrower than float32, in double:
// products of operands cut to few bits, and softmax in 16 bits. What is right
// then is not attention of the whole inputs, from which 4 bits lead further
// than zeros are, but the same roundings done again, from the definition.
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
#ifndef SHARDC_VERIFY_JUDGE_NARROW_REFERENCE_H_
#define SHARDC_VERIFY_JUDGE_NARROW_REFERENCE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "exec/attention/attention_problem.h"
#include "exec/attention/reference.h"

namespace shardc::verify {

bool IsNarrow(const exec::OperationSettings& settings);

// Query, key and value as integers of `bits` times their steps: values over
// blocks of keys, of all of them where `block` is 0.
exec::ReferenceInputs CutOperands(const exec::ReferenceInputs& in, int bits,
                                  int64_t block);

struct NarrowResult {
  exec::DenseArray output;  // [B, T, H, Dv]
  exec::DenseArray slack;   // how far ties may take an element from it
};

// Where IsNarrow; weights and values are cut within blocks of `block` keys, or
// over all of them where it is 0. Nothing, and why, where shapes do not fit.
std::optional<NarrowResult> NarrowAttention(
    const exec::ReferenceInputs& in, const exec::AttentionOptions& options,
    const exec::OperationSettings& settings, int64_t block, std::string& why);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_JUDGE_NARROW_REFERENCE_H_
