// Reads the name of an operation (`op_name` in its metadata): its phase and its
// scopes.
#ifndef SHARDC_AUDIT_ORIGIN_H_
#define SHARDC_AUDIT_ORIGIN_H_

#include <string>
#include <string_view>

#include "audit/audit.h"

namespace shardc::audit {

// Returns the phase of an operation. It is read from the parts that JAX adds to
// the operation's name: `rematted_computation` means recomputed, `transpose(`
// means the backward pass, and `jvp(` means the forward pass. Returns kNone for
// other names.
Phase PhaseOf(std::string_view op_name);
// Returns the named scopes around an operation, outermost first, without JAX's
// own parts: "layer/attn" of
// "jit(step)/transpose(jvp(layer))/while/body/attn/dot_general".
std::string ScopeOf(std::string_view op_name);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_ORIGIN_H_
