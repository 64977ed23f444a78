// Implements logical axis rules (MaxText, flax): ordered pairs of a logical
// name and mesh axes. Rules are tried in order. A rule applies to the dimension
// of its name if no rule has been applied to that dimension yet, and if none of
// the rule's axes is used in the same spec. Axes that the mesh lacks are
// removed first.
#ifndef SHARDC_TESTS_REFERENCE_LOGICAL_RULES_H_
#define SHARDC_TESTS_REFERENCE_LOGICAL_RULES_H_

#include <optional>
#include <span>
#include <string>

#include "model/mesh.h"

namespace shardc::reference {

struct LogicalRule {
  std::string name;
  AxisGroup axes;
};

// Returns the axes of each dimension. `names` has an entry for each dimension,
// nullopt for one without a name.
Spec ResolveLogicalAxes(std::span<const LogicalRule> rules,
                        std::span<const std::optional<std::string>> names,
                        const Mesh& mesh);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_LOGICAL_RULES_H_
