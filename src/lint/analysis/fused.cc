// Finds the parts of fused projections, because each part must be sharded
// separately. The sizes of query, key and value are computed from the model's
// heads. If the heads are unknown, the sizes are inferred: if the output is
// three times as large as the input, there are three equal parts. Otherwise the
// queries are as large as the input of the block's output projection. Gate and
// up each have half of the output. For example:
//
//   c_attn [1600, 4800]  ->  queries, keys and values, each 1600 columns
#include "lint/analysis/fused.h"

#include "lint/analysis/heads.h"
#include "roles/classify.h"
#include "source/index.h"

namespace shardc {
namespace {

// Returns the input size of the output projection of the same attention block,
// which equals the size of the block's queries. Returns 0 if the block has no
// such projection.
int64_t QueriesOf(const Facts& facts, const LayerStacks& stacks,
                  const ParameterGroup& group) {
  for (const ParameterGroup& output : facts.groups()) {
    if (output.role.role != Role::kOutput ||
        output.role.block_path != group.role.block_path) {
      continue;
    }
    const auto dims = MatrixDimsOf(facts, stacks, output);
    const int side = InDim(output.role, 2);
    if (!dims || side < 0) continue;
    return (*facts.TypeOf(output).shape)[AsIndex((*dims)[AsIndex(side)])];
  }
  return 0;
}

std::vector<FusedPart> QkvParts(const Facts& facts, const LayerStacks& stacks,
                                const ParameterGroup& group, int64_t size,
                                int64_t other) {
  if (facts.model() != nullptr) {
    const auto heads = HeadsOf(*facts.model());
    if (heads &&
        size == (heads->heads + 2 * heads->kv_heads) * heads->head_dim) {
      return {{"queries", heads->heads * heads->head_dim},
              {"keys", heads->kv_heads * heads->head_dim}};
    }
  }
  // If there are as many KV heads as query heads, and queries are as wide as
  // the model, each of the three parts has the size of the input.
  if (size == 3 * other) return {{"queries, keys and values each", other}};
  // With grouped queries, the columns after the queries are half keys and half
  // values.
  const int64_t queries = QueriesOf(facts, stacks, group);
  const int64_t rest = size - queries;
  if (queries > 0 && rest > 0 && rest % 2 == 0 && rest / 2 <= queries) {
    return {{"queries", queries}, {"keys", rest / 2}};
  }
  return {};
}

// Returns the dimension that holds the two halves of a fused gate and up
// projection, or -1 if the dimension is unknown.
int GateUpDim(const Facts& facts, const ParameterGroup& group) {
  const int rank = facts.Rank(group);
  const int known = OutDim(group.role, rank);
  if (known >= 0 || facts.model() == nullptr) return known;
  const ModelConfig& model = *facts.model();
  for (int dim = rank - 1; dim >= 0 && dim >= rank - 2; --dim) {
    const int64_t size = (*facts.TypeOf(group).shape)[static_cast<size_t>(dim)];
    if (model.hidden && size == *model.hidden) continue;
    if ((model.moe_intermediate && size == 2 * *model.moe_intermediate) ||
        (model.intermediate && size == 2 * *model.intermediate)) {
      return dim;
    }
  }
  return -1;
}

}  // namespace

std::optional<Fused> FusedOf(const Facts& facts, const LayerStacks& stacks,
                             const ParameterGroup& group) {
  const int rank = facts.Rank(group);
  if (rank < 2) return std::nullopt;
  const Shape& shape = *facts.TypeOf(group).shape;
  Fused out;
  if (group.role.module_role == Role::kFusedGateUp &&
      group.role.leaf != Leaf::kBias) {
    out.dim = GateUpDim(facts, group);
    if (out.dim < 0) return std::nullopt;
    out.parts = {{"gate and up each", shape[static_cast<size_t>(out.dim)] / 2}};
  } else if (group.role.module_role == Role::kFusedQkv) {
    const auto dims = MatrixDimsOf(facts, stacks, group);
    const int side = OutDim(group.role, 2);
    if (!dims || side < 0) return std::nullopt;
    out.dim = (*dims)[AsIndex(side)];
    out.parts = QkvParts(facts, stacks, group, shape[AsIndex(out.dim)],
                         shape[AsIndex((*dims)[AsIndex(1 - side)])]);
  }
  if (out.parts.empty()) return std::nullopt;
  return out;
}

}  // namespace shardc
