// Sharding constraints of activations. Each activation has a role, such as
// `resid`. The constraint of a role lists the logical axes that shard the
// activation in a mode.
#ifndef SHARDC_STEP_CONSTRAINTS_H_
#define SHARDC_STEP_CONSTRAINTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
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
  // What the rules state of activations and the step does not do.
  std::vector<std::string> notes = {};
};
// Returns the constraints of a mode. Specs that `activations:` of the rules
// states are overrides of the roles of these activations.
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

// The kind of a label of an op. It states which values have the label, and how
// mesh axes may shard the label.
enum class LabelKind : uint8_t {
  kMap,  // In operands and result; the same axes shard it in all of them.
  // In operands only; the result is partial over the axes that shard the label.
  kSum,
  // Only in the operand of a maximum; an all-reduce of maxima follows the op.
  kMax,
  kFresh,  // In the result only; any axes may shard it.
  kNeed,   // The op needs the label unsharded, even if that takes a gather.
};

struct RuleLabel {
  LabelId label = kNoLabel;
  LabelKind kind = LabelKind::kMap;
};

// The distinct labels of an op. Each dimension of an operand and of the result
// refers to its label by an index into `labels`. A label and the label to which
// it is renamed are one entry.
struct OpLabels {
  static constexpr size_t kMost = 24;
  std::array<RuleLabel, kMost> labels{};
  size_t count = 0;
  // For each operand and dimension, the index of its label in `labels`.
  std::vector<std::array<int8_t, kMaxRank>> of{};
  // For each dimension of the result, the index of its label in `labels`.
  std::array<int8_t, kMaxRank> result{};
};
// Sets `out`. Returns false if the op has more labels than OpLabels::kMost or
// more dimensions than kMaxRank.
bool LabelsOf(const Graph& graph, const Op& op, OpLabels& out);

// The shardings of the operand and the result of an op that splits or merges a
// dimension, repeats heads or sums groups of heads. PassThrough() chooses them
// so that every device computes its part of the result without communication.
// `wanted` is the preferred sharding of the result, or null.
struct Structural {
  Sharding operand = {};
  Sharding result = {};
};
Structural PassThrough(const Graph& graph, const Op& op, const Axes& axes,
                       const Sizes& sizes, const Sharding& operand,
                       const Sharding* wanted);
// Returns the sharding of the operand with which the result has the sharding
// `wanted`. Axes of `wanted` are left out if the op cannot shard its result
// over them without communication.
Sharding PullBack(const Graph& graph, const Op& op, const Axes& axes,
                  const Sizes& sizes, const Sharding& wanted);

}  // namespace shardc::step

#endif  // SHARDC_STEP_CONSTRAINTS_H_
