// Only tensor parallel axes are compared: the others are gathered before the
// product. What leaves the query's projection must enter the output's.
//
//   q_proj [fsdp, tp], o_proj [fsdp, tp]  ->  leaves over tp, enters whole
#include <string>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kAttentionReshard;

namespace {

// Axes that stay through the matrix product; the others are gathered first.
AxisGroup Out(const Facts& facts, const ParameterGroup& group) {
  return facts.TensorAxes(
      facts.AxesAt(group, OutDim(group.role, facts.Rank(group))));
}
AxisGroup In(const Facts& facts, const ParameterGroup& group) {
  return facts.TensorAxes(
      facts.AxesAt(group, InDim(group.role, facts.Rank(group))));
}

bool Empty(const Facts& facts, const AxisGroup& group) {
  return SplitAlike(facts.mesh(), group, {});
}

// A projection into heads that splits what enters it, and not the heads.
void CheckTransposed(const Facts& facts, const ParameterGroup& group,
                     FindingSink& sink) {
  const AxisGroup axes = In(facts, group);
  if (!Empty(facts, Out(facts, group)) || Empty(facts, axes)) return;
  const std::string over = GroupText(axes);
  const std::string so =
      " the heads whole, so the result is summed over that axis before"
      " attention";
  LintFinding finding = GroupFinding(
      facts, kAttentionReshard.code, group,
      ParametersText(facts, group) + " splits what enters it over " + over +
          " and leaves" + so,
      "split the dimension that leaves the projection: ColumnWise for a"
      " kernel, RowWise for a torch weight");
  finding.several = {
      "entering " + over, "",
      " split what enters them over " + over + " and leave" + so};
  finding.tells.push_back(ReshardTopic(facts.Example(group)));
  sink.push_back(std::move(finding));
}

void Check(const Facts& facts, FindingSink& sink) {
  for (const Siblings& module : SiblingsOf(facts)) {
    for (Role role :
         {Role::kQuery, Role::kKey, Role::kValue, Role::kFusedQkv}) {
      const ParameterGroup* group = module.Find(role);
      if (group == nullptr || !group->role.attention) continue;
      if (facts.Rank(*group) != 2 || OutDim(group->role, 2) < 0) continue;
      CheckTransposed(facts, *group, sink);
    }
    const ParameterGroup* query = module.Find(Role::kQuery);
    if (query == nullptr) query = module.Find(Role::kFusedQkv);
    const ParameterGroup* output = module.Find(Role::kOutput);
    if (query == nullptr || output == nullptr) continue;
    if (facts.Rank(*query) != 2 || facts.Rank(*output) != 2) continue;
    if (OutDim(query->role, 2) < 0 || InDim(output->role, 2) < 0) continue;
    const AxisGroup heads = Out(facts, *query);
    const AxisGroup entering = In(facts, *output);
    if (Empty(facts, heads) || SplitAlike(facts.mesh(), heads, entering))
      continue;
    LintFinding finding = GroupFinding(
        facts, kAttentionReshard.code, *output,
        "the heads leave " + Quoted(GroupName(facts, *query)) + " split over " +
            GroupText(heads) + " and enter " + ParametersText(facts, *output) +
            " split over " + GroupText(entering) +
            ": attention's result is moved in between",
        "split what enters the output projection over " + GroupText(heads));
    finding.labels.push_back(
        {facts.GroupPlace(*query), "the heads are split here"});
    finding.tells.push_back(ReshardTopic(facts.Example(*output)));
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kAttentionReshard{
    .code = {214, "attention-reshard", Level::kWarning,
             "the projections of attention do not compose"},
    .needs = kNeedsShapes,
    .what =
        "Finds query, key and value projections that split what enters "
        "them and leave their heads whole, and output projections that "
        "are not split over the axis on which the heads arrive. Axes that "
        "are gathered before use, such as `fsdp`, do not count.",
    .why =
        "Every layer then moves or sums activations that could have "
        "stayed.",
    .instead =
        "Split the heads where they leave, and over the same axis "
        "where they enter the output projection.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'self_attn/(q|k|v)_proj/kernel'
    spec: RowWise
  - match: 'self_attn/o_proj/kernel'
    spec: RowWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/self_attn/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"},
  "layers/0/self_attn/k_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"},
  "layers/0/self_attn/v_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"},
  "layers/0/self_attn/o_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'self_attn/(q|k|v)_proj/kernel'
    spec: ColumnWise
  - match: 'self_attn/o_proj/kernel'
    spec: RowWise
)"},
    .check = Check};

}  // namespace shardc
