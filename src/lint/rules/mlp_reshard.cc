#include <algorithm>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kMlpReshard;

namespace {

// Numbers and parts that one number or matrix packs, at most.
constexpr int64_t kPacked = 16;

// Whether what leaves the one is what enters the other: in some trees layers
// stand between the sides, [in, layers, out].
bool Meet(const Facts& facts, const ParameterGroup& up,
          const ParameterGroup& down) {
  const auto size = [&](const ParameterGroup& group, int dim) {
    return (*facts.TypeOf(group).shape)[static_cast<size_t>(dim)];
  };
  const int64_t leaving = size(up, OutDim(up.role, facts.Rank(up)));
  const int64_t entering = size(down, InDim(down.role, facts.Rank(down)));
  // Packed numbers and fused parts are several in one.
  if (facts.Rank(up) == 2 || leaving <= 0 || entering <= 0) return true;
  return std::max(leaving, entering) <= kPacked * std::min(leaving, entering);
}

void Check(const Facts& facts, FindingSink& sink) {
  for (const Siblings& module : SiblingsOf(facts)) {
    const ParameterGroup* up = module.Find(Role::kUp);
    if (up == nullptr) up = module.Find(Role::kFusedGateUp);
    const ParameterGroup* down = module.Find(Role::kDown);
    if (up == nullptr || down == nullptr) continue;
    const int up_rank = facts.Rank(*up);
    const int down_rank = facts.Rank(*down);
    if (up_rank != down_rank || OutDim(up->role, up_rank) < 0 ||
        InDim(down->role, down_rank) < 0 || !Meet(facts, *up, *down)) {
      continue;
    }
    const AxisGroup leaving =
        facts.TensorAxes(facts.AxesAt(*up, OutDim(up->role, up_rank)));
    const AxisGroup entering =
        facts.TensorAxes(facts.AxesAt(*down, InDim(down->role, down_rank)));
    if (SplitAlike(facts.mesh(), leaving, entering)) continue;
    LintFinding finding = GroupFinding(
        facts, kMlpReshard.code, *down,
        "the MLP's activations leave " + Quoted(GroupName(facts, *up)) +
            " split over " + GroupText(leaving) + " and enter " +
            ParametersText(facts, *down) + " split over " + GroupText(entering),
        "split what enters the down projection over " + GroupText(leaving));
    finding.labels.push_back({facts.GroupPlace(*up), "the up projection"});
    finding.tells.push_back(ReshardTopic(facts.Example(*down)));
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kMlpReshard{
    .code = {215, "mlp-reshard", Level::kWarning,
             "the projections of an MLP do not compose"},
    .needs = kNeedsShapes,
    .what =
        "Finds down projections that are not split over the axis on which "
        "the up projection leaves the activations. Axes that are gathered "
        "before use, such as `fsdp`, do not count.",
    .why = "The widest activation of the layer is moved in between.",
    .instead = "Split the inner dimension of both over the same axis.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'up_proj/kernel'
    spec: ColumnWise
  - match: 'down_proj/kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/mlp/up_proj/kernel": {"shape": [1024, 4096], "dtype": "BF16"},
  "layers/0/mlp/down_proj/kernel": {"shape": [4096, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'up_proj/kernel'
    spec: ColumnWise
  - match: 'down_proj/kernel'
    spec: RowWise
)"},
    .check = Check};

}  // namespace shardc
