// Where a projection is several in one, the sizes of its parts follow from
// the model's heads or from the shape, and each must divide, not their sum.
//
//   gate and up in 2734 over tp 2: 2734 % 2 = 0, but 1367 % 2 = 1
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

struct Part {
  std::string name;
  int64_t size = 0;
};

std::vector<Part> QkvParts(const Facts& facts, int64_t size, int64_t other) {
  if (facts.model() != nullptr) {
    const auto heads = HeadsOf(*facts.model());
    if (heads &&
        size == (heads->heads + 2 * heads->kv_heads) * heads->head_dim) {
      return {{"queries", heads->heads * heads->head_dim},
              {"keys", heads->kv_heads * heads->head_dim}};
    }
  }
  // As many keys as queries, and the width of the model.
  if (size == 3 * other) return {{"queries, keys and values each", other}};
  return {};
}

// Which dimension holds the two halves of a fused gate and up projection.
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

void Check(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    const int rank = facts.Rank(group);
    if (rank < 2 || !facts.Judged(group)) continue;
    int dim = -1;
    std::vector<Part> parts;
    const Shape& shape = *facts.TypeOf(group).shape;
    if (group.role.role == Role::kFusedGateUp &&
        group.role.leaf != Leaf::kBias) {
      dim = GateUpDim(facts, group);
      if (dim >= 0) {
        parts = {{"gate and up each", shape[static_cast<size_t>(dim)] / 2}};
      }
    } else if (group.role.role == Role::kFusedQkv && rank == 2) {
      dim = OutDim(group.role, rank);
      if (dim >= 0) {
        parts = QkvParts(facts, shape[static_cast<size_t>(dim)],
                         shape[static_cast<size_t>(1 - dim)]);
      }
    }
    if (dim < 0) continue;
    const AxisGroup axes = facts.TensorAxes(facts.AxesAt(group, dim));
    const int64_t shards = facts.TensorParts(axes);
    for (const Part& part : parts) {
      if (shards <= 1 || part.size % shards == 0) continue;
      sink.push_back(GroupFinding(
          facts, kFusedParts.code, group,
          "dimension " + std::to_string(dim) + " of " +
              ParametersText(facts, group) + " is " +
              std::to_string(shape[static_cast<size_t>(dim)]) +
              " wide and packs several parts, " + part.name + " " +
              std::to_string(part.size) + ", " + AxesHave(facts, axes) + ": " +
              std::to_string(part.size) + " % " + std::to_string(shards) +
              " = " + std::to_string(part.size % shards),
          "take an axis size that divides every part"));
      break;
    }
  }
}

}  // namespace

constinit const Lint kFusedParts{
    .code = {221, "fused-parts", Level::kError,
             "a fused projection divides as a whole and not part by part"},
    .needs = kNeedsShapes,
    .what =
        "Finds fused query-key-value and gate-up projections whose width "
        "divides by the tensor parallel axes while one of the packed "
        "parts does not.",
    .why =
        "A shard then holds the end of one part and the start of the next, "
        "so devices compute with mixed rows.",
    .instead = "Take a size that divides each part.",
    .bad = {.mesh = "tp:2",
            .rules = R"(version: 1
rules:
  - match: 'gate_up_proj/kernel'
    spec: [null, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/mlp/gate_up_proj/kernel": {"shape": [1024, 2734], "dtype": "BF16"}}}
)"},
    .good = {.manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/mlp/gate_up_proj/kernel": {"shape": [1024, 2736], "dtype": "BF16"}}}
)"},
    .check = Check};

}  // namespace shardc
