// Finds the projections of a module, and the companions of a weight: its bias,
// scale and zero point.
#ifndef SHARDC_LINT_ANALYSIS_GROUPS_H_
#define SHARDC_LINT_ANALYSIS_GROUPS_H_

#include <map>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// The weights (kernels) of one module, keyed by role. If several groups have
// the same role, the group with the most parameters is used. SiblingsOf returns
// the modules with two or more roles in order of appearance. Groups of unknown
// role, and groups that lints cannot judge, are omitted.
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
// Returns whether one of `axes` shards a dimension of the group in train.
bool SplitOver(const Facts& facts, const ParameterGroup& group,
               const AxisGroup& axes);
// Returns whether each tensor of the group is placed at one coordinate of an
// axis by `place`.
bool IsPlaced(const Facts& facts, const ParameterGroup& group);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_GROUPS_H_
