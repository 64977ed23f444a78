// Lints about activations that are resharded between two parameters of a layer,
// because their specs do not fit together.
//
//   up [d, f:tp], down [f:fsdp, d]  ->  the MLP's activations are resharded
#include <algorithm>
#include <optional>
#include <string>
#include <variant>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/fused.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"
#include "roles/layer_stacks.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {

// Reports attention whose query and output projections do not fit together. The
// query projection's output and the output projection's input must be sharded
// over the same axes. Only tensor-parallel axes are compared, because weights
// are gathered over data axes such as fsdp before the product.
//
//   q_proj and o_proj [in, out], both over [fsdp, tp]
//     ->  reported: queries are over tp, and o_proj's input is unsharded
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

// Reports MLPs in which the output of the up projection and the input of the
// down projection are sharded over different axes. The activations are
// resharded between the two projections.
//
//   up [d, f: tp], down [f: fsdp, d]  ->  the down projection needs f over tp
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

namespace {

// Returns the help of a finding: how a user can assign the same spec to the
// group in train and in `mode`. The spec is changed in one of three places: the
// rule's own specs of these modes, the rule of the parameter that `like` names,
// or the axis rules of decode.
std::string HelpFor(const Facts& facts, const ParameterGroup& group,
                    Mode mode) {
  if (group.rule >= 0) {
    const Rule& rule = facts.rules()[static_cast<size_t>(group.rule)];
    if (rule.modes.contains(mode) || rule.modes.contains(Mode::kTrain)) {
      return "remove the mode's spec if one spec serves both";
    }
    if (std::holds_alternative<SpecLike>(rule.spec)) {
      return "give the parameter that `like` names one spec in both modes";
    }
  }
  return "give the decode axis rules (or `generation` of the registrations) "
         "that the spec names the axes of the standard ones, if one spec "
         "serves both";
}

}  // namespace

void CheckParameterReshard(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Illegal(group)) continue;
    const ModeLayout& train = facts.Train(group);
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      if (SameSplit(facts.mesh(), train.spec, mode.spec)) continue;
      const int64_t bytes = facts.TotalBytes(group);
      LintFinding finding = GroupFinding(
          facts, kParameterReshard.code, group,
          ParametersText(facts, group) + " is " + SpecText(train.spec) +
              " in train and " + SpecText(mode.spec) + " in " +
              std::string(ModeName(mode.mode)) +
              (bytes > 0 ? ": the reshard moves up to " + BytesText(bytes)
                         : ""),
          HelpFor(facts, group, mode.mode));
      // Findings without a subject are not joined. Joining would lose the
      // number of bytes that each message states.
      finding.subject.clear();
      sink.push_back(std::move(finding));
      break;
    }
  }
}

// Reports a hidden dimension of activations that is sharded over the
// tensor-parallel axis. Every column-parallel projection then gathers the
// activations, and every row-parallel projection scatters them.
namespace {

// Reports the axis rule of the hidden dimension if it has its default value.
// This is reported only if the model's step is known and sends at least a
// hundredth fewer bytes with an unsharded hidden dimension.
void CheckDefault(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  const ModeStep* const of =
      step == nullptr ? nullptr : step->Find(Mode::kTrain);
  const AxisGroup tensor = facts.TensorAxes(
      facts.compiled().rules.axes.Value(AxisRule::kHiddenState).axes);
  if (of == nullptr || facts.TensorParts(tensor) <= 1) return;
  const auto whole = of->SentWith(
      of->step.specs, {{"resid", "EMBED", {}}, {"normed", "EMBED", {}}});
  const int64_t now = of->Sent();
  if (!whole || *whole > now - now / 100) return;
  LintFinding finding = FindingAt(kHiddenOverTensor.code, facts.MeshPlace());
  finding.level = Level::kNote;
  finding.message =
      "the hidden dimension of activations is split over " + GroupText(tensor) +
      " by default, and gathered before every projection: a step of " +
      Counted(of->inputs.batch, "row") + " of " +
      Counted(of->inputs.length, "token") + " sends " + BytesText(now) +
      " a device, " + BytesText(*whole) + " if it is unsharded" +
      AddedOverRanks(facts);
  finding.help = "write `axes: {hidden_state: []}`";
  sink.push_back(std::move(finding));
}

}  // namespace

void CheckHiddenOverTensor(const Facts& facts, FindingSink& sink) {
  const RuleSet& rules = facts.compiled().rules;
  const auto& written = rules.axes.Given(AxisRule::kHiddenState);
  if (!written) return CheckDefault(facts, sink);
  const AxisGroup tensor = facts.TensorAxes(written->axes);
  if (facts.TensorParts(tensor) <= 1) return;
  LintFinding finding =
      FindingAt(kHiddenOverTensor.code,
                rules.axes_places[static_cast<size_t>(AxisRule::kHiddenState)]);
  finding.message =
      "`hidden_state`, the hidden dimension of activations, is split over " +
      GroupText(tensor) +
      ", which splits heads and the MLP as well: every projection gathers it, "
      "about 30 % more traffic than with unsharded activations";
  finding.help = "write `axes: {hidden_state: []}`";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
