// Reports norms whose scale is sharded over tensor-parallel axes. A norm over
// the model's width reads activations that are unsharded over these axes, so
// its scale must not be sharded over them either. Norms of queries, keys and
// latents, and norms inside a mixer (such as Mamba's), have other sizes. They
// may be sharded and are not reported.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/rules/all.h"
#include "model/name.h"
#include "roles/words.h"

namespace shardc {
namespace {

// Returns whether the name belongs to a norm of queries, keys or latents, or to
// a parameter inside a mixer (such as Mamba's).
bool IsInner(std::string_view name, char separator) {
  const auto parts = SplitName(name, separator);
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return NamesMixer(part) || IsNorm(RoleBelow(part));
  });
}

}  // namespace

void CheckNormSplit(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  AxisGroup hidden;
  if (const auto& written =
          facts.compiled().rules.axes.Given(AxisRule::kHiddenState)) {
    hidden = facts.TensorAxes(written->axes);
  }
  // A matrix below the name of a norm computes its scale from other
  // activations (AdaLN), so that the vector of its module is a bias.
  std::set<std::string_view> modulations;
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role == Role::kNorm && facts.Rank(group) > 1 &&
        !VectorDimOf(facts, stacks, group)) {
      modulations.insert(group.role.module_path);
    }
  }
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != Role::kNorm || !facts.Judged(group) ||
        IsInner(group.name, facts.separator())) {
      continue;
    }
    const auto dim = VectorDimOf(facts, stacks, group);
    if (!dim || modulations.contains(group.role.module_path)) continue;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, *dim));
    if (facts.TensorParts(axes) <= 1) continue;
    // If the activations are sharded in the same way as the norm, SHD411
    // reports the activations.
    if (SameSplit(facts.mesh(), axes, hidden)) continue;
    sink.push_back(GroupFinding(
        facts, kNormSplit.code, group,
        ParametersText(facts, group) + " is split over " + GroupText(axes) +
            ", and the activations that it scales are not: it is gathered in "
            "every layer, for " +
            std::to_string(
                (*facts.TypeOf(group).shape)[static_cast<size_t>(*dim)]) +
            " elements",
        "replicate it: `spec: Replicated`"));
  }
}

}  // namespace shardc
