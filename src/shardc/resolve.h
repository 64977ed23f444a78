// Resolves logical axes to mesh axes. This is for activations and other tensors
// whose specs are not found by a rule that matches a name.
#ifndef SHARDC_SHARDC_RESOLVE_H_
#define SHARDC_SHARDC_RESOLVE_H_

#include <optional>
#include <string>
#include <vector>

#include "shardc/findings.h"
#include "shardc/mesh.h"
#include "shardc/rules.h"
#include "shardc/spec.h"

namespace shardc::SHARDC_V1 {

// Returns the spec of a list of logical axes in a mode. `axes` has the form of
// a rule's `spec:`, such as `[BATCH, [FSDP, SP], _]`, or is the name of a
// bundle such as `ColumnWise`. Axis rules, registered names and bundles are
// taken from `rules`. The spec is not checked against a shape. Errors: invalid
// syntax, or an unknown name.
std::optional<Spec> Resolve(const std::string& axes, Mode mode,
                            const Mesh& mesh, const Rules& rules,
                            Findings& findings);

// The spec of one tensor of attention in the layout [batch, length, heads,
// dim]. `tensor` is "query3d", "query", "key", "value", "bias", "mask",
// "output", "q_segment_ids" or "kv_segment_ids".
struct AttentionSpec {
  std::string tensor;
  Spec spec;
};
std::optional<std::vector<AttentionSpec>> ResolveAttention(Mode mode,
                                                           const Mesh& mesh,
                                                           const Rules& rules,
                                                           Findings& findings);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_RESOLVE_H_
