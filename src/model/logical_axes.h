// Logical axis rules (MaxText, t5x, flax): ordered pairs of a logical axis name
// and mesh axes. They map the logical names of a parameter's dimensions to a
// spec.
#ifndef SHARDC_MODEL_LOGICAL_AXES_H_
#define SHARDC_MODEL_LOGICAL_AXES_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/mesh.h"
#include "model/spec.h"
#include "source/source.h"

namespace shardc {

struct LogicalRule {
  std::string name;
  AxisGroup axes;
};

// A parameter, and the logical name of each dimension that has one.
struct LogicalNames {
  std::string param;
  std::vector<AxisGroup> dims;  // at most one name for each dimension
  Place place;
};

// An ordered list of rules with an index by name, for many parameters.
class LogicalRules {
 public:
  explicit LogicalRules(std::span<const LogicalRule> rules);  // they outlive it

  // Returns the spec of a parameter whose dimensions have these logical names,
  // as ResolveLogical does.
  Spec Resolve(std::span<const AxisGroup> names, const Mesh& mesh) const;

 private:
  std::span<const LogicalRule> rules_;
  // Indices of rules, ascending.
  std::unordered_map<std::string_view, std::vector<size_t>> by_name_;
};

// Applies the rules in their order, not in the order of the dimensions: a rule
// decides the first dimension of its name if no earlier rule has decided it and
// no other dimension uses one of the rule's axes. An axis that the mesh lacks
// counts as one of size 1: a dimension uses it, and the spec leaves it out.
Spec ResolveLogical(std::span<const LogicalRule> rules,
                    std::span<const AxisGroup> names, const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_MODEL_LOGICAL_AXES_H_
