// Projections that stand side by side in a module, and what belongs to a
// weight: its bias, scale and zero point.
#ifndef SHARDC_LINT_ANALYSIS_GROUPS_H_
#define SHARDC_LINT_ANALYSIS_GROUPS_H_

#include <map>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Weights (kernels) of one module by role, the commonest group of each; in
// order of appearance. Modules with one role only are left out.
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
// Whether the spec in training names one of `axes` in some dimension.
bool SplitOver(const Facts& facts, const ParameterGroup& group,
               const AxisGroup& axes);
// Whether the group is at one coordinate of a `place` axis.
bool IsPlaced(const Facts& facts, const ParameterGroup& group);

// The block along a dimension that one scale stands for: the least power of
// two that gives this many scales. 1 where each element has its own.
int64_t BlockOf(int64_t size, int64_t scales);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_GROUPS_H_
