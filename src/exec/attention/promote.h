// The common dtype of operands, as JAX's standard promotion has it.
#ifndef SHARDC_EXEC_ATTENTION_PROMOTE_H_
#define SHARDC_EXEC_ATTENTION_PROMOTE_H_

#include <optional>
#include <span>

#include "model/dtype.h"

namespace shardc::exec {

// A Python scalar takes the other operand's width.
enum class WeakKind : uint8_t { kInt, kFloat };

struct PromoteOptions {
  bool x64 = false;     // else 64-bit results become 32-bit ones
  bool inexact = true;  // whole results become F32, as layers want
};

// Nothing where JAX refuses (two 8-bit floats, an int4 with an int8), and
// where the result is no dtype of ours. At least one operand.
std::optional<Dtype> CanonicalDtype(std::span<const Dtype> operands,
                                    PromoteOptions options = {});
std::optional<Dtype> CanonicalDtype(std::span<const Dtype> operands,
                                    std::span<const WeakKind> scalars,
                                    PromoteOptions options);
std::optional<Dtype> Promote(Dtype a, Dtype b);  // with x64, not inexact

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_PROMOTE_H_
