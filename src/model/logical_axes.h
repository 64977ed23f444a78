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

// A parameter with the logical names of its dimensions. A dimension may have no
// name.
struct LogicalNames {
  std::string param;
  // For each dimension, its logical name; empty if it has none.
  std::vector<AxisGroup> dims;
  Place place;
};

// An ordered list of rules, indexed by logical name so that many parameters are
// resolved quickly.
class LogicalRules {
 public:
  // The rules must outlive this object.
  explicit LogicalRules(std::span<const LogicalRule> rules);

  // Returns the spec of a parameter whose dimensions have these logical names.
  // The rules apply in the order of the list, not of the dimensions. A rule
  // concerns the first dimension that has the rule's logical name. The rule
  // sets that dimension's axes if no earlier rule has set them and no other
  // dimension uses one of the rule's axes. A missing mesh axis is treated like
  // an axis of size 1: a dimension uses it, and the spec leaves it out.
  Spec Resolve(std::span<const AxisGroup> names, const Mesh& mesh) const;

 private:
  std::span<const LogicalRule> rules_;
  // For each logical name, the indices of its rules, ascending.
  std::unordered_map<std::string_view, std::vector<size_t>> by_name_;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_LOGICAL_AXES_H_
