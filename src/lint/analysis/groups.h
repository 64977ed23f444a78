// Finds the projections of a module, and the companions of a weight: its bias,
// scale, zero point and group indices.
#ifndef SHARDC_LINT_ANALYSIS_GROUPS_H_
#define SHARDC_LINT_ANALYSIS_GROUPS_H_

#include <map>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// The weights (kernels) of one module, keyed by role. If several groups have
// the same role, the group with the most parameters is used. Groups of unknown
// role, adapters, and groups that lints cannot judge, are omitted. SiblingsOf
// returns the modules with two or more roles, in order of appearance.
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
  // The bias, scale, zero point or group indices of `weight`.
  const ParameterGroup* other = nullptr;
  bool indexes = false;  // whether `other` holds the group index of each input
};
std::vector<Companion> CompanionsOf(const Facts& facts);

bool IsWeight(const ParameterGroup& group);
// Returns whether one of `axes` shards a dimension of the group in train.
bool SplitOver(const Facts& facts, const ParameterGroup& group,
               const AxisGroup& axes);
// Returns whether a rule's `place` assigns each tensor of the group to the
// devices at one coordinate of an axis.
bool IsPlaced(const Facts& facts, const ParameterGroup& group);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_GROUPS_H_
