// Reports shards that end inside a block of quantised numbers. The numbers of a
// block share a scale, so a device then needs a scale of another device. The
// block size of each dimension follows from the shapes of a weight and its
// scale. Without scales, the configuration states the block sizes of the input
// and the output dimension of projections.
//
//   576 rows with 5 scales have blocks of 128 rows. Over tp 8, a shard has 72
//   rows, so it ends inside a block.
#include <algorithm>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "roles/quantisation.h"
#include "source/size.h"

namespace shardc {

extern const Lint kQuantisationBlock;

namespace {

void Report(const Facts& facts, const ParameterGroup& weight, int dim,
            int64_t block, FindingSink& sink) {
  const int64_t size = (*facts.TypeOf(weight).shape)[static_cast<size_t>(dim)];
  const AxisGroup axes = facts.AxesAt(weight, dim);
  const int64_t parts = facts.mesh().Parts(axes).value_or(1);
  const int64_t shard = ShareOf(size, parts);
  if (parts <= 1 || shard % block == 0) return;
  if (size % parts != 0 && facts.Illegal(weight)) return;
  sink.push_back(GroupFinding(
      facts, kQuantisationBlock.code, weight,
      "dimension " + std::to_string(dim) + " of " +
          ParametersText(facts, weight) + " is " + std::to_string(size) +
          " in blocks of " + std::to_string(block) + ", " +
          AxesHave(facts, axes) + ": a shard is " + std::to_string(shard) +
          " and ends inside a block",
      "use an axis size that keeps blocks together, or leave the dimension "
      "unsharded"));
}

// Returns whether quantised checkpoints usually quantise this matrix.
bool IsProjection(const ParameterGroup& group) {
  const Role role = group.role.module_role;
  return IsWeight(group) && role != Role::kLatentUp &&
         (IsAttention(role) || IsMlp(role));
}

// Checks the block sizes of the configuration. They are used only if the tree
// has no scales, because such a tree describes the model before quantisation.
void CheckConfigured(const Facts& facts, FindingSink& sink) {
  const ModelConfig* const model = facts.model();
  if (model == nullptr) return;
  const int64_t columns = model->quant_group.value_or(1);
  const int64_t rows = model->quant_rows;
  if (columns == 1 && rows == 1) return;
  const auto groups = facts.groups();
  const bool shown = std::any_of(groups.begin(), groups.end(), [](auto& group) {
    return (group.role.leaf == Leaf::kScale &&
            group.role.module_role != Role::kNorm) ||
           group.name.ends_with("_scales");
  });
  if (shown) return;
  for (const ParameterGroup& group : groups) {
    if (!IsProjection(group) || !facts.Judged(group) ||
        MayPack(facts.TypeOf(group).dtype.value_or(Dtype::kI32))) {
      continue;
    }
    const int rank = facts.Rank(group);
    const int in = InDim(group.role, rank);
    if (in < 0) continue;
    Report(facts, group, in, columns, sink);
    Report(facts, group, OutDim(group.role, rank), rows, sink);
  }
}

void CheckQuantisationBlock(const Facts& facts, FindingSink& sink) {
  CheckConfigured(facts, sink);
  for (const Companion& pair : CompanionsOf(facts)) {
    if (pair.other->role.leaf != Leaf::kScale) continue;
    const int rank = facts.Rank(*pair.weight);
    if (facts.Rank(*pair.other) != rank) continue;
    for (int dim = 0; dim < rank; ++dim) {
      const auto at = static_cast<size_t>(dim);
      const int64_t scales = (*facts.TypeOf(*pair.other).shape)[at];
      // A dimension with a single scale has no blocks.
      if (scales <= 1) continue;
      const int64_t block =
          BlockOf((*facts.TypeOf(*pair.weight).shape)[at], scales);
      if (block > 1) Report(facts, *pair.weight, dim, block, sink);
    }
  }
}

}  // namespace

constinit const Lint kQuantisationBlock{
    .code = {222, "quantisation-block", Level::kWarning,
             "a shard ends inside a quantisation block"},
    .needs = kNeedsShapes,
    .what =
        "Finds quantised weights whose shards are not a multiple of the block "
        "of elements that share a scale. The block follows from the shapes of "
        "weight and scale, or from the block sizes of config.json if the tree "
        "has no scales.",
    .why =
        "Two devices then need the same scale. Kernels that expect complete "
        "blocks refuse such a shard, and a scale that is split as well is on "
        "one of the two only (sgl-project/sglang#3345, "
        "vllm-project/vllm#42384).",
    .instead = "Use an axis size that keeps blocks together.",
    .bad = {.mesh = "tp:8",
            .rules = R"(version: 1
rules:
  - match: '(^|\.)kv_a_proj\.weight$'
    spec: [TP, null]
  - match: 'scale_inv'
    spec: Replicated
separator: "."
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers.0.kv_a_proj.weight": {"shape": [576, 7168], "dtype": "F8_E4M3"},
  "layers.0.kv_a_proj.weight_scale_inv": {"shape": [5, 56], "dtype": "F32"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: '(^|\.)kv_a_proj\.weight$'
    spec: [null, TP]
  - match: 'scale_inv'
    spec: Replicated
separator: "."
)"},
    .check = CheckQuantisationBlock};

}  // namespace shardc
