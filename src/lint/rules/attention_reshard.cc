// Reports attention whose query and output projections do not fit together. The
// query projection's output and the output projection's input must be sharded
// over the same axes. Only tensor-parallel axes are compared, because weights
// are gathered over data axes such as fsdp before the product.
//
//   q_proj and o_proj [in, out], both over [fsdp, tp]
//     ->  reported: queries are over tp, and o_proj's input is unsharded
#include <optional>
#include <string>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

// The tensor-parallel axes of a projection's output and of its input.
struct Sides {
  AxisGroup out, in;
};

// Returns the axes of a projection's sides. Returns nullopt if the projection
// is neither a matrix of one layer nor the matrices of scanned layers, or if
// its orientation is unknown.
std::optional<Sides> SidesOf(const Facts& facts, const LayerStacks& stacks,
                             const ParameterGroup& group) {
  const auto dims = MatrixDimsOf(facts, stacks, group);
  const int out = OutDim(group.role, 2), in = InDim(group.role, 2);
  if (!dims || out < 0 || in < 0) return std::nullopt;
  const auto at = [&](int side) {
    return facts.TensorAxes(
        facts.AxesAt(group, (*dims)[static_cast<size_t>(side)]));
  };
  return Sides{at(out), at(in)};
}

bool Empty(const Facts& facts, const AxisGroup& group) {
  return SameSplit(facts.mesh(), group, {});
}

// Reports a projection to heads that is sharded over its input instead of its
// heads.
void CheckTransposed(const Facts& facts, const ParameterGroup& group,
                     const Sides& sides, FindingSink& sink) {
  const AxisGroup& axes = sides.in;
  if (!Empty(facts, sides.out) || Empty(facts, axes)) return;
  const std::string over = GroupText(axes);
  const std::string so =
      " the heads: the result is all-reduced over that axis before attention";
  LintFinding finding =
      GroupFinding(facts, kAttentionReshard.code, group,
                   ParametersText(facts, group) + " splits its input over " +
                       over + " and does not split" + so,
                   "split the output dimension of the projection: ColumnWise "
                   "for a kernel, RowWise for a torch weight");
  finding.several = {
      "input over " + over, "",
      " split their input over " + over + " and do not split" + so};
  finding.reports.push_back(ReshardTopic(facts.Example(group)));
  sink.push_back(std::move(finding));
}

}  // namespace

void CheckAttentionReshard(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  for (const Siblings& module : SiblingsOf(facts)) {
    for (Role role :
         {Role::kQuery, Role::kKey, Role::kValue, Role::kFusedQkv}) {
      const ParameterGroup* group = module.Find(role);
      if (group == nullptr || !group->role.attention) continue;
      const auto sides = SidesOf(facts, stacks, *group);
      if (sides) CheckTransposed(facts, *group, *sides, sink);
    }
    const ParameterGroup* query = module.Find(Role::kQuery);
    if (query == nullptr) query = module.Find(Role::kFusedQkv);
    const ParameterGroup* output = module.Find(Role::kOutput);
    if (query == nullptr || output == nullptr) continue;
    const auto first = SidesOf(facts, stacks, *query);
    const auto last = SidesOf(facts, stacks, *output);
    if (!first || !last) continue;
    const AxisGroup& heads = first->out;
    const AxisGroup& entering = last->in;
    if (Empty(facts, heads) || SameSplit(facts.mesh(), heads, entering))
      continue;
    // The outputs of a mixer's projections are gathered if its convolution and
    // its head vectors are not split. The output projection is then right.
    if (IsGathered(facts, *query)) continue;
    LintFinding finding = GroupFinding(
        facts, kAttentionReshard.code, *output,
        "the heads in the output of " + Quoted(GroupName(facts, *query)) +
            " are split over " + GroupText(heads) + " and the input of " +
            ParametersText(facts, *output) + " split over " +
            GroupText(entering) +
            ": the output of attention is resharded in between",
        "split the input dimension of the output projection over " +
            GroupText(heads));
    finding.labels.push_back(
        {facts.GroupPlace(*query), "the heads are split here"});
    finding.reports.push_back(ReshardTopic(facts.Example(*output)));
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
