// Projections of one module, and what belongs to a weight: its bias, scale and
// zero point.
#ifndef SHARDC_LINT_ANALYSIS_GROUPS_H_
#define SHARDC_LINT_ANALYSIS_GROUPS_H_

#include <map>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// The weights (kernels) of one module by role, the largest group of each, in
// order of appearance. Modules with a single role are left out.
struct Siblings {
  std::map<Role, const ParameterGroup*> roles;

  const ParameterGroup* Find(Role role) const {
    const auto at = roles.find(role);
    return at == roles.end() ? nullptr : at->second;
  }
};
std::vector<Siblings> SiblingsOf(const Facts& facts);

struct Companion {
  const ParameterGroup* weight = nullptr;
  const ParameterGroup* other = nullptr;  // a bias, scale or zero point
};
std::vector<Companion> CompanionsOf(const Facts& facts);

bool IsWeight(const ParameterGroup& group);
// Whether some dimension of the spec in train has one of `axes`.
bool SplitOver(const Facts& facts, const ParameterGroup& group,
               const AxisGroup& axes);
// Whether the group is at one coordinate of a `place` axis.
bool IsPlaced(const Facts& facts, const ParameterGroup& group);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_GROUPS_H_
