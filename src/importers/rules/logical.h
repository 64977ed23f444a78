// Logical axis rules (MaxText, t5x, flax): ordered pairs of a logical name and
// mesh axes, and the logical names of each parameter's dimensions.
#ifndef SHARDC_IMPORTERS_RULES_LOGICAL_H_
#define SHARDC_IMPORTERS_RULES_LOGICAL_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "importers/rules/importer.h"

namespace shardc::imports {

struct LogicalRule {
  std::string name;
  AxisGroup axes;
};

// In the order of the rules, not of the dimensions: a rule gives its axes to
// the dimension of its name where that is open still and none of the axes is
// used; axes that the mesh lacks are left out first.
Spec ResolveLogical(std::span<const LogicalRule> rules,
                    std::span<const AxisGroup> names, const Mesh& mesh);

// The parameters of `--names`, resolved over `--mesh`, as exact rules.
std::optional<Imported> ImportLogical(const std::vector<LogicalRule>& rules,
                                      const Request& request,
                                      Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_LOGICAL_H_
