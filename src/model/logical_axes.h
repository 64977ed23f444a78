// Logical axis rules (MaxText, t5x, flax): ordered pairs of a logical name and
// mesh axes, over the logical names of a parameter's dimensions.
#ifndef SHARDC_MODEL_LOGICAL_AXES_H_
#define SHARDC_MODEL_LOGICAL_AXES_H_

#include <span>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "model/spec.h"
#include "source/source.h"

namespace shardc {

struct LogicalRule {
  std::string name;
  AxisGroup axes;
};

// A parameter, and of every dimension its name or nothing.
struct LogicalNames {
  std::string param;
  std::vector<AxisGroup> dims;  // one name at most in each
  Place place;
};

// In the order of the rules, not of the dimensions: a rule gives its axes to
// the dimension of its name where that is open still and none of the axes is
// used; axes that the mesh lacks are left out first.
Spec ResolveLogical(std::span<const LogicalRule> rules,
                    std::span<const AxisGroup> names, const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_MODEL_LOGICAL_AXES_H_
