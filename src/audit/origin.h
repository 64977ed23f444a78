// What the name of an operation, `op_name` in its metadata, shows of its
// origin.
#ifndef SHARDC_AUDIT_ORIGIN_H_
#define SHARDC_AUDIT_ORIGIN_H_

#include <string>
#include <string_view>

#include "audit/audit.h"

namespace shardc::audit {

// JAX names the transformations that an operation comes from.
Phase PhaseOf(std::string_view op_name);
// Returns the named scopes around an operation, outermost first, without JAX's
// own parts: "layer/attn" of
// "jit(step)/transpose(jvp(layer))/while/body/attn/dot_general".
std::string ScopeOf(std::string_view op_name);

}  // namespace shardc::audit

#endif  // SHARDC_AUDIT_ORIGIN_H_
