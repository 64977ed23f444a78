// How activations lie: the semantic axes of a mode, by the role of a value.
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

// The tokens that labels and roles speak of.
inline constexpr std::array<std::string_view, 12> kConstraintAxes = {
    "BATCH",   "QUERY_LENGTH",     "KV_LENGTH",   "HEAD",
    "KV_HEAD", "HEAD_DIM",         "KV_HEAD_DIM", "EMBED",
    "VOCAB",   "MLP_INTERMEDIATE", "EXPERT",      "EXPERT_GATE"};

// In place of a token's own axes, for the values of one role.
struct ShardingConstraintOverride {
  std::string role = {};
  std::string token = {};
  AxisGroup axes = {};
};

struct ShardingConstraints {
  std::array<AxisGroup, kConstraintAxes.size()> by_axis = {};
  AxisGroup data = {};  // of batch and sequence, and FSDP
  std::vector<ShardingConstraintOverride> overrides = {};
};
ShardingConstraints ShardingConstraintsOf(const Resolver& resolver, Mode mode);

// The layout of a value with these labels; nothing where the role says
// nothing. An axis that comes twice stays at its first place, one that does
// not divide falls away with those after it; both are told in `notes`.
std::optional<Sharding> ConstrainedSharding(
    const ShardingConstraints& constraints, const Axes& axes,
    const Graph& graph, const Sizes& sizes, std::string_view role,
    const std::vector<LabelId>& labels, std::vector<std::string>& notes);

// That only forward has: it says where something is gathered, whose transpose
// is a reduce_scatter.
bool IsForwardOnly(std::string_view role);

}  // namespace shardc::step

#endif  // SHARDC_STEP_CONSTRAINTS_H_
