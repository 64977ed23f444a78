// The common dtype of operands by JAX's standard type promotion.
#ifndef SHARDC_EXEC_ATTENTION_PROMOTE_H_
#define SHARDC_EXEC_ATTENTION_PROMOTE_H_

#include <optional>
#include <span>

#include "model/dtype.h"

namespace shardc::exec {

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

#endif  // SHARDC_EXEC_ATTENTION_PROMOTE_H_
