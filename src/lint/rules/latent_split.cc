// Latent attention projects down, norms, and projects up to heads. What leaves
// the first projection is the latent that is normed, and one part of it, the
// rotated key, is the same for all heads:
//
//   kv_a_proj_with_mqa [576, 7168] over [tp, fsdp]  ->  told
//   kv_b_proj [32768, 512] over [tp, fsdp]          ->  its heads are split
#include <algorithm>
#include <array>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "model/name.h"

namespace shardc {

extern const Lint kLatentSplit;

namespace {

constexpr std::array<std::string_view, 6> kLatents = {
    "q_a_proj", "kv_a_proj_with_mqa",       "kv_a_proj", "wq_a",
    "wkv_a",    "fused_qkv_a_proj_with_mqa"};

bool IsLatent(const ParameterGroup& group, char separator) {
  const auto parts = SplitName(group.name, separator);
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return std::find(kLatents.begin(), kLatents.end(), part) != kLatents.end();
  });
}

void Check(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    const int rank = facts.Rank(group);
    if (rank != 2 || !IsWeight(group) || !facts.Judged(group) ||
        !IsLatent(group, facts.separator())) {
      continue;
    }
    // Of a projection down, the latent is the shorter side.
    const Shape& shape = *facts.TypeOf(group).shape;
    if (shape[0] == shape[1]) continue;
    const int dim = shape[0] < shape[1] ? 0 : 1;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, dim));
    if (facts.TensorParts(axes) <= 1) continue;
    sink.push_back(GroupFinding(
        facts, kLatentSplit.code, group,
        "dimension " + std::to_string(dim) + " of " +
            ParametersText(facts, group) + " is the latent, split over " +
            GroupText(axes) +
            ": its norm needs all of it, so it is gathered in every layer",
        "leave the latent whole, and split the heads of the projection up"));
  }
}

}  // namespace

constinit const Lint kLatentSplit{
    .code = {228, "latent-split", Level::kWarning,
             "latent attention's projection is split before its norm"},
    .needs = kNeedsShapes,
    .what =
        "Finds projections to the latents of queries, keys and values "
        "(`q_a_proj`, `kv_a_proj_with_mqa`) whose latent dimension is split "
        "over a tensor parallel axis.",
    .why =
        "The norm behind it takes the mean over the whole latent, and every "
        "head reads all of it: the activations are gathered in every layer "
        "(deepseek-ai/DeepSeek-V3#283).",
    .instead = "Split the projections from the latent to the heads.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'kv_a_proj_with_mqa'
    spec: [TP, FSDP]
  - match: 'kv_b_proj'
    spec: [TP, FSDP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers.0.self_attn.kv_a_proj_with_mqa.weight": {"shape": [576, 7168], "dtype": "BF16"},
  "layers.0.self_attn.kv_b_proj.weight": {"shape": [32768, 512], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'kv_a_proj_with_mqa'
    spec: [null, FSDP]
  - match: 'kv_b_proj'
    spec: [TP, FSDP]
)"},
    .check = Check};

}  // namespace shardc
