// Finds the phase of an operation (forward, backward or recomputed) and its
// named scopes. Both are read from the operation's name, the member `op_name`
// of its metadata.
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
