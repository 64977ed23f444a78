// Logical axis rules (MaxText, flax): ordered pairs of a logical name and
// mesh axes. Rules are tried in order; one applies to the dimension of its
// name if that dimension is still open and none of the rule's axes is used
// yet in the same spec. Axes that the mesh lacks are left out first.
#ifndef SHARDC_TESTS_REFERENCE_LOGICAL_RULES_H_
#define SHARDC_TESTS_REFERENCE_LOGICAL_RULES_H_

#include <optional>
#include <span>
#include <string>

#include "model/mesh.h"
#include "model/spec.h"

namespace shardc::reference {

struct LogicalRule {
  std::string name;
  AxisGroup axes;
};

// One entry per name, nothing where a dimension has none.
Spec ResolveLogicalAxes(std::span<const LogicalRule> rules,
                        std::span<const std::optional<std::string>> names,
                        const Mesh& mesh);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_LOGICAL_RULES_H_
