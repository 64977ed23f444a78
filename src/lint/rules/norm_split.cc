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
#include "lint/rules/lint.h"
#include "model/name.h"
#include "roles/words.h"

namespace shardc {

extern const Lint kNormSplit;

namespace {

// Returns whether the name belongs to a norm of queries, keys or latents, or to
// a parameter inside a mixer (such as Mamba's).
bool IsInner(std::string_view name, char separator) {
  const auto parts = SplitName(name, separator);
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return NamesMixer(part) || IsNorm(RoleBelow(part));
  });
}

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

}  // namespace

constinit const Lint kNormSplit{
    .code = {227, "norm-split", Level::kWarning,
             "a norm's scale is split over a tensor parallel axis"},
    .needs = kNeedsShapes,
    .what =
        "Finds scales and biases of norms over the model's width that are "
        "split over a tensor parallel axis. Norms of queries, keys and mixers "
        "are not reported, since they may be split with their heads.",
    .why =
        "Between blocks every device of the axis has unsharded activations, so "
        "that the scale is gathered each time: the latency of a collective for "
        "a few kilobytes.",
    .instead = "Replicate norms.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'norm/scale'
    spec: [TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/input_norm/scale": {"shape": [4096], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'norm/scale'
    spec: Replicated
)"},
    .check = CheckNormSplit};

}  // namespace shardc
