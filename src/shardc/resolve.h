// Semantic axes to mesh axes, for activations and whatever has no name.
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

// `axes` as a rule's `spec:` has them: `[BATCH, [FSDP, SP], _]`, or the name
// of a bundle such as `ColumnWise`. Axis rules, registered tokens and bundles
// are those of `rules`. The spec is not judged by any shape. Errors: a name
// means nothing.
std::optional<Spec> Resolve(const std::string& axes, Mode mode,
                            const Mesh& mesh, const Rules& rules,
                            Findings& findings);

// Of an attention: "query", "key", "value", "bias", "mask", "output" and
// others, for layout [batch, length, heads, dim].
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
