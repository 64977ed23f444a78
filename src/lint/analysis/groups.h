// Finds the projections of a module, the companions of a weight (its bias,
// scale, zero point and group indices), and the halves of an adapter.
#ifndef SHARDC_LINT_ANALYSIS_GROUPS_H_
#define SHARDC_LINT_ANALYSIS_GROUPS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
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

// One half of an adapter: the module that is adapted, and whether this half
// reads the module's input.
struct Adapter {
  std::string base;  // path of the module
  bool down = false;
};
std::optional<Adapter> AdapterOf(std::string_view name, char separator);
// Returns the other half of an adapter, or null.
const ParameterGroup* OtherHalf(const Facts& facts,
                                const ParameterGroup& group);
// Returns whether a replicated half of an adapter is next to one that is split,
// which is the standard split of an adapter.
bool IsReplicatedHalf(const Facts& facts, const ParameterGroup& group);

bool IsWeight(const ParameterGroup& group);
// Returns whether one of `axes` shards a dimension of the group in train.
bool SplitOver(const Facts& facts, const ParameterGroup& group,
               const AxisGroup& axes);
// Returns whether a rule's `place` assigns each tensor of the group to the
// devices at one coordinate of an axis.
bool IsPlaced(const Facts& facts, const ParameterGroup& group);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_GROUPS_H_
