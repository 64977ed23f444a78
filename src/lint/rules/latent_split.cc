// Reports a latent that is sharded. Latent attention (MLA) projects activations
// to a latent, normalises the latent, and projects it to heads. The latent must
// not be sharded over tensor-parallel axes, because the norm and every head
// read the complete latent:
//
//   kv_a_proj_with_mqa [576, 7168] over [tp, fsdp]  ->  reported
//   kv_b_proj [32768, 512] over [tp, fsdp]          ->  not reported: its
//                                                       heads are split
#include <cstdint>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kLatentSplit;

namespace {

void CheckLatentSplit(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  for (const ParameterGroup& group : facts.groups()) {
    if (group.role.module_role != Role::kLatentDown || !IsWeight(group) ||
        !facts.Judged(group)) {
      continue;
    }
    const auto dims = MatrixDimsOf(facts, stacks, group);
    if (!dims) continue;
    // The latent is the shorter of the projection's two dimensions.
    const Shape& shape = *facts.TypeOf(group).shape;
    const int64_t first = shape[static_cast<size_t>((*dims)[0])];
    const int64_t last = shape[static_cast<size_t>((*dims)[1])];
    if (first == last) continue;
    const int dim = first < last ? (*dims)[0] : (*dims)[1];
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, dim));
    if (facts.TensorParts(axes) <= 1) continue;
    sink.push_back(GroupFinding(
        facts, kLatentSplit.code, group,
        "dimension " + std::to_string(dim) + " of " +
            ParametersText(facts, group) + " is the latent, split over " +
            GroupText(axes) +
            ": its norm reads all of it, so that it is gathered in every layer",
        "leave the latent unsharded, and split the heads of the projection "
        "from the latent"));
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
        "The norm takes the mean over the entire latent, and every head reads "
        "all of it, so that the activations are gathered in every layer "
        "(deepseek-ai/DeepSeek-V3#283).",
    .instead = "Split the heads of the projections from the latent.",
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
    .check = CheckLatentSplit};

}  // namespace shardc
