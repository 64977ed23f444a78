// The shapes of weight and scale give the block in each dimension; without
// scales the configuration gives it for the input of projections.
//
//   576 rows, 5 scales: blocks of 128; over tp 8 a shard has 72, inside a block
#include <algorithm>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kQuantisationBlock;

namespace {

void Say(const Facts& facts, const ParameterGroup& weight, int dim,
         int64_t block, FindingSink& sink) {
  const int64_t size = (*facts.TypeOf(weight).shape)[static_cast<size_t>(dim)];
  const AxisGroup axes = facts.AxesAt(weight, dim);
  const int64_t parts = facts.mesh().Parts(axes).value_or(1);
  if (parts <= 1 || size % parts != 0 || (size / parts) % block == 0) return;
  sink.push_back(GroupFinding(
      facts, kQuantisationBlock.code, weight,
      "dimension " + std::to_string(dim) + " of " +
          ParametersText(facts, weight) + " is " + std::to_string(size) +
          " in blocks of " + std::to_string(block) + ", " +
          AxesHave(facts, axes) + ": a shard is " +
          std::to_string(size / parts) + " and ends inside a block",
      "take an axis size that leaves whole blocks, or leave the dimension"
      " whole"));
}

// Matrices that a quantised checkpoint quantises: projections.
bool IsProjection(const ParameterGroup& group) {
  switch (group.role.role) {
    case Role::kOther:
    case Role::kEmbedding:
    case Role::kHead:
    case Role::kRouter:
    case Role::kNorm:
      return false;
    default:
      return IsWeight(group);
  }
}

// The configuration's group, along the input, where no scale shows which
// weights have one: trees from before quantisation.
void CheckConfigured(const Facts& facts, FindingSink& sink) {
  if (facts.model() == nullptr || !facts.model()->quant_group) return;
  const auto groups = facts.groups();
  const bool shown = std::any_of(groups.begin(), groups.end(), [](auto& group) {
    return (group.role.leaf == Leaf::kScale &&
            group.role.role != Role::kNorm) ||
           group.name.ends_with("_scales");
  });
  if (shown) return;
  for (const ParameterGroup& group : groups) {
    if (!IsProjection(group) || !facts.Judged(group) ||
        MayPack(facts.TypeOf(group).dtype.value_or(Dtype::kI32))) {
      continue;
    }
    const int dim = InDim(group.role, facts.Rank(group));
    if (dim >= 0) Say(facts, group, dim, *facts.model()->quant_group, sink);
  }
}

void Check(const Facts& facts, FindingSink& sink) {
  CheckConfigured(facts, sink);
  for (const Companion& pair : CompanionsOf(facts)) {
    if (pair.other->role.leaf != Leaf::kScale) continue;
    const int rank = facts.Rank(*pair.weight);
    if (facts.Rank(*pair.other) != rank) continue;
    for (int dim = 0; dim < rank; ++dim) {
      const auto at = static_cast<size_t>(dim);
      const int64_t scales = (*facts.TypeOf(*pair.other).shape)[at];
      // One scale for the whole dimension is no block.
      if (scales <= 1) continue;
      const int64_t block =
          BlockOf((*facts.TypeOf(*pair.weight).shape)[at], scales);
      if (block > 1) Say(facts, *pair.weight, dim, block, sink);
    }
  }
}

}  // namespace

constinit const Lint kQuantisationBlock{
    .code = {222, "quantisation-block", Level::kWarning,
             "a shard ends inside a quantisation block"},
    .needs = kNeedsShapes,
    .what =
        "Finds quantised weights whose shards are no multiple of the "
        "block that one scale stands for, as the shapes of weight and "
        "scale tell, or config.json's group size where the tree has no "
        "scales.",
    .why =
        "Two devices then need one scale. Kernels that expect whole blocks "
        "refuse such a shard, and a scale that is split too is on one of "
        "the two only (sgl-project/sglang#3345, vllm-project/vllm#42384).",
    .instead = "Split so that blocks stay whole.",
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
    .check = Check};

}  // namespace shardc
