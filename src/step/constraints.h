// Sharding constraints of activations: for each role of a value, the logical
// axes that shard it in a mode.
#ifndef SHARDC_STEP_CONSTRAINTS_H_
#define SHARDC_STEP_CONSTRAINTS_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "resolve/resolve.h"
#include "step/program.h"

namespace shardc::step {

// The logical axes that labels and roles refer to.
inline constexpr std::array<std::string_view, 12> kConstraintAxes = {
    "BATCH",   "QUERY_LENGTH",     "KV_LENGTH",   "HEAD",
    "KV_HEAD", "HEAD_DIM",         "KV_HEAD_DIM", "EMBED",
    "VOCAB",   "MLP_INTERMEDIATE", "EXPERT",      "EXPERT_GATE"};

// Mesh axes that replace the mesh axes of the logical axis `token` for the
// values of one role.
struct ShardingConstraintOverride {
  std::string role = {};
  std::string token = {};
  AxisGroup axes = {};
};

struct ShardingConstraints {
  std::array<AxisGroup, kConstraintAxes.size()> by_axis = {};
  AxisGroup data = {};  // mesh axes of BATCH, QUERY_LENGTH and FSDP
  std::vector<ShardingConstraintOverride> overrides = {};
};
ShardingConstraints ShardingConstraintsOf(const Resolver& resolver, Mode mode);

// Returns the sharding that a role requires of a value with these labels.
// Returns nullopt if there is no such role, if the value has more than kMaxRank
// dimensions, or for `moe_tok` if EXPERT uses an axis that BATCH lacks. An axis
// that two dimensions would use shards the first of them. If an axis does not
// divide its dimension, that axis and the axes after it are left out. `notes`
// reports both cases, except for a dimension of size 1 that is not BATCH.
std::optional<Sharding> ConstrainedSharding(
    const ShardingConstraints& constraints, const Axes& axes,
    const Graph& graph, const Sizes& sizes, std::string_view role,
    const std::vector<LabelId>& labels, std::vector<std::string>& notes);

// Returns whether the constraint of an activation's role, such as `krep`,
// applies to the forward pass only. Such a constraint decides where the value
// is gathered. The transpose of the gather is a reduce_scatter of the gradient,
// so ops of the backward pass need no constraint.
bool IsForwardOnly(std::string_view role);

}  // namespace shardc::step

#endif  // SHARDC_STEP_CONSTRAINTS_H_
