// Sharding constraints of activations. Each activation has a role, such as
// `resid`. The constraint of a role lists the logical axes that shard the
// activation in a mode.
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

// The logical axes that dimension labels may have and that the constraints of
// roles use.
inline constexpr std::array<std::string_view, 12> kConstraintAxes = {
    "BATCH",   "QUERY_LENGTH",     "KV_LENGTH",   "HEAD",
    "KV_HEAD", "HEAD_DIM",         "KV_HEAD_DIM", "EMBED",
    "VOCAB",   "MLP_INTERMEDIATE", "EXPERT",      "EXPERT_GATE"};

// For the values of one role, replaces the mesh axes of one logical axis by
// `axes`.
struct ShardingConstraintOverride {
  std::string role = {};
  std::string token = {};
  AxisGroup axes = {};
};

struct ShardingConstraints {
  std::array<AxisGroup, kConstraintAxes.size()> by_axis = {};
  AxisGroup data = {};  // The mesh axes of BATCH, QUERY_LENGTH and FSDP.
  std::vector<ShardingConstraintOverride> overrides = {};
};
ShardingConstraints ShardingConstraintsOf(const Resolver& resolver, Mode mode);

// Returns the sharding that a role requires of a value with these labels.
// Returns nullopt if there is no such role, or if the value has more than
// kMaxRank dimensions. Also returns nullopt for the roles `moe_tok` and
// `moe_tok_out` if EXPERT uses an axis that BATCH lacks.
//
// If two dimensions have the same axis, the axis shards only the first of them.
// If an axis does not divide its dimension, that axis and the axes after it are
// left out. A message about each of these two cases is appended to `notes`,
// except for a dimension of size 1 that is not BATCH.
std::optional<Sharding> ConstrainedSharding(
    const ShardingConstraints& constraints, const Axes& axes,
    const Graph& graph, const Sizes& sizes, std::string_view role,
    const std::vector<LabelId>& labels, std::vector<std::string>& notes);

// Returns whether a value of this role may stay partial over axes that its
// sharding does not use. The results of experts (forward) and the cotangents of
// their inputs (backward) may, if the experts' axes do not shard the batch:
// each device then adds the rows of a token that it holds, and only their sum
// is reduced. If the experts' axes shard the batch, the rows are reduced before
// they are sent back to the devices of their tokens.
bool KeepsPartial(const ShardingConstraints& constraints, const Axes& axes,
                  std::string_view role, bool forward);

// Returns whether the constraint of an activation's role applies to the forward
// pass only. Such a constraint determines where the forward pass gathers a
// value: `krep`, for example, gathers the keys before attention. In the
// backward pass the gather becomes a reduce_scatter of the gradient, so the
// gradient needs no constraint.
bool IsForwardOnly(std::string_view role);

}  // namespace shardc::step

#endif  // SHARDC_STEP_CONSTRAINTS_H_
