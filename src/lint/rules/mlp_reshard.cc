// Reports MLPs in which the output of the up projection and the input of the
// down projection are sharded over different axes. The activations are
// resharded between the two projections.
//
//   up [d, f: tp], down [f: fsdp, d]  ->  the down projection needs f over tp
#include <algorithm>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "roles/layer_stacks.h"
#include "source/index.h"

namespace shardc {
namespace {

// The output size of the up projection and the input size of the down
// projection may differ by up to this factor. One reason is that a stored
// number may pack several weights. Another is that gate and up may be fused in
// one matrix.
constexpr int64_t kPacked = 16;

// The up or the down projection, and the dimension that both share.
struct MlpSide {
  const ParameterGroup& group;
  int dim = -1;  // -1 if the orientation is unknown
  int rank = 0;
};

// Returns the shared dimension of a projection: the output dimension of an up
// projection, or the input dimension of a down projection. `of` is OutDim or
// InDim. A dimension that counts scanned layers is skipped, as in [in, layers,
// out].
MlpSide SideOf(const Facts& facts, const LayerStacks& stacks,
               const ParameterGroup& group,
               int (*of)(const ParameterRole&, int)) {
  std::vector<int> dims;
  const auto at_group = static_cast<size_t>(&group - facts.groups().data());
  const auto& scanned = stacks.dims[at_group];
  for (int d = 0; d < facts.Rank(group); ++d) {
    if (std::none_of(scanned.begin(), scanned.end(),
                     [&](const ScannedDim& one) { return one.dim == d; })) {
      dims.push_back(d);
    }
  }
  const int at = of(group.role, static_cast<int>(dims.size()));
  return {group, at < 0 ? -1 : dims[AsIndex(at)], facts.Rank(group)};
}

// Returns whether the output of `up` can be the input of `down`.
bool Meet(const Facts& facts, const MlpSide& up, const MlpSide& down) {
  const auto size = [&](const MlpSide& side) {
    return (*facts.TypeOf(side.group).shape)[AsIndex(side.dim)];
  };
  const int64_t leaving = size(up), entering = size(down);
  // Matrices are accepted without comparing sizes. In tensors of higher rank,
  // the sizes may differ by a factor of kPacked.
  if (up.rank == 2 || leaving <= 0 || entering <= 0) return true;
  return std::max(leaving, entering) <= kPacked * std::min(leaving, entering);
}

}  // namespace

void CheckMlpReshard(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  for (const Siblings& module : SiblingsOf(facts)) {
    const ParameterGroup* up = module.Find(Role::kUp);
    if (up == nullptr) up = module.Find(Role::kFusedGateUp);
    const ParameterGroup* down = module.Find(Role::kDown);
    if (up == nullptr || down == nullptr) continue;
    const MlpSide out = SideOf(facts, stacks, *up, OutDim);
    const MlpSide in = SideOf(facts, stacks, *down, InDim);
    if (out.rank != in.rank || out.dim < 0 || in.dim < 0 ||
        !Meet(facts, out, in)) {
      continue;
    }
    const AxisGroup leaving = facts.TensorAxes(facts.AxesAt(*up, out.dim));
    const AxisGroup entering = facts.TensorAxes(facts.AxesAt(*down, in.dim));
    if (SameSplit(facts.mesh(), leaving, entering)) continue;
    LintFinding finding = GroupFinding(
        facts, kMlpReshard.code, *down,
        "the output of " + Quoted(GroupName(facts, *up)) + " is split over " +
            GroupText(leaving) + " and the input of " +
            ParametersText(facts, *down) + " is split over " +
            GroupText(entering) + ": activations are resharded in between",
        SameSplit(facts.mesh(), leaving, {})
            ? "split the output dimension of the up projection over " +
                  GroupText(entering)
            : "split the input dimension of the down projection over " +
                  GroupText(leaving));
    finding.labels.push_back({facts.GroupPlace(*up), "the up projection"});
    finding.reports.push_back(ReshardTopic(facts.Example(*down)));
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
