#include <algorithm>

#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kMlpReshard;

namespace {

// At most so many weights in one number, times fused parts of one matrix.
constexpr int64_t kPacked = 16;

// Whether the output of one projection is the input of the other. In some trees
// layers stand between the two sides, [in, layers, out].
bool Meet(const Facts& facts, const ParameterGroup& up,
          const ParameterGroup& down) {
  const auto size = [&](const ParameterGroup& group, int dim) {
    return (*facts.TypeOf(group).shape)[static_cast<size_t>(dim)];
  };
  const int64_t leaving = size(up, OutDim(up.role, facts.Rank(up)));
  const int64_t entering = size(down, InDim(down.role, facts.Rank(down)));
  // The sizes may differ by packed numbers and fused parts.
  if (facts.Rank(up) == 2 || leaving <= 0 || entering <= 0) return true;
  return std::max(leaving, entering) <= kPacked * std::min(leaving, entering);
}

void CheckMlpReshard(const Facts& facts, FindingSink& sink) {
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
        "the output of " + Quoted(GroupName(facts, *up)) + " is split over " +
            GroupText(leaving) + " and the input of " +
            ParametersText(facts, *down) + " is split over " +
            GroupText(entering) + ": activations are resharded in between",
        "split the input dimension of the down projection over " +
            GroupText(leaving));
    finding.labels.push_back({facts.GroupPlace(*up), "the up projection"});
    finding.reports.push_back(ReshardTopic(facts.Example(*down)));
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kMlpReshard{
    .code =
        {215, "mlp-reshard", Level::kWarning,
         "the up and down projections of an MLP are split over different axes"},
    .needs = kNeedsShapes,
    .what =
        "Finds down projections whose input is not split over the axis of the "
        "up projection's output. Axes that are gathered before use, such as "
        "`fsdp`, are not compared.",
    .why = "The widest activation of the layer is resharded in between.",
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
    .check = CheckMlpReshard};

}  // namespace shardc
