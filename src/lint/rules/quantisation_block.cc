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
#include "lint/rules/all.h"
#include "roles/quantisation.h"

namespace shardc {
namespace {

void Report(const Facts& facts, const ParameterGroup& weight, int dim,
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

}  // namespace

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

}  // namespace shardc
