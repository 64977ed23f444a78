// The common dtype of operands by JAX's standard type promotion.
#ifndef SHARDC_EXEC_ATTENTION_PROMOTE_H_
#define SHARDC_EXEC_ATTENTION_PROMOTE_H_

#include <optional>
#include <span>

#include "model/dtype.h"

namespace shardc::exec {

// A Python scalar (int or float), which takes the width of the other operand.
enum class WeakKind : uint8_t { kInt, kFloat };

struct PromoteOptions {
  bool x64 = false;     // if false, 64-bit results become 32-bit
  bool inexact = true;  // integer results become F32, as layers expect
};

// Returns the common dtype. Returns nullopt if JAX defines no common dtype (for
// example for two different 8-bit floats, or an int4 with an int8), if shardc
// does not have the dtype, or if there are no operands.
std::optional<Dtype> CanonicalDtype(std::span<const Dtype> operands,
                                    PromoteOptions options = {});
std::optional<Dtype> CanonicalDtype(std::span<const Dtype> operands,
                                    std::span<const WeakKind> scalars,
                                    PromoteOptions options);
std::optional<Dtype> Promote(Dtype a, Dtype b);  // with x64, without `inexact`

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_PROMOTE_H_
