// Chooses which label of an op each mesh axis shards.
#ifndef SHARDC_STEP_CHOOSE_H_
#define SHARDC_STEP_CHOOSE_H_

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "step/op_def.h"
#include "step/program.h"

namespace shardc::step {

// Plans the slices and collectives that reshard a value from one sharding to
// another. Each step changes the dimension `dim`, except that an all_reduce
// changes no dimension. An all_to_all moves an axis from the dimension `other`
// to `dim`.

struct ReshardStep {
  InstructionKind kind = InstructionKind::kSlice;  // kSlice or kCollective
  Collective collective = Collective::kAllGather;
  AxisList axes = {};
  uint8_t dim = 0;
  uint8_t other = 0;
  Sharding after = {};
};

// Returns the steps in the order in which they run; no steps if the shardings
// are equal. `from` must be partial over all axes over which `to` is partial.
std::vector<ReshardStep> PlanReshard(const Sharding& from, const Sharding& to);

// The cost of steps that reshard a value from the sharding `from`: the bytes
// that the busiest device sends in all steps, and the number of collectives.
struct ReshardCost {
  int64_t bytes = 0;
  int64_t collectives = 0;
};
ReshardCost CostOf(const std::vector<ReshardStep>& steps, const Axes& axes,
                   const Value& value, const Sharding& from, const Sizes& sizes,
                   int64_t element_bytes);

enum class Policy : uint8_t { kPublished, kCost };

struct OperandView {
  const Value* value = nullptr;
  // The sharding of the first of `copies`. The choice of the op's axes is
  // based on this sharding.
  const Sharding* sharding = nullptr;
  // The shardings of all copies of the value in the program so far.
  std::span<const Sharding* const> copies = {};
  // True for a parameter and for a value that depends on parameters only.
  bool weight = false;
  bool repeated = false;  // True if an earlier operand is the same value.
};

struct ChoiceRequest {
  const Op* op = nullptr;
  const OpLabels* labels = nullptr;
  std::span<const OperandView> operands = {};
  const Value* result = nullptr;
  // The preferred sharding of the result; null if it has none.
  const Sharding* wanted = nullptr;
  // True if the result is a gradient, which is then treated as a weight.
  bool gradient = false;
};

struct Choice {
  std::vector<Sharding> operands = {};
  Sharding result = {};
  // The axes of the all-reduce that follows a maximum over a sharded label.
  AxisList maxima = {};
  // The conflicts between operands. The caller sets `op` in each.
  std::vector<ShardingConflict> conflicts = {};
};

struct ChoiceSettings {
  const Axes* axes = nullptr;
  const Sizes* sizes = nullptr;
  int64_t element_bytes = 2;
  AxisSet data = 0;
  Policy policy = Policy::kPublished;
  bool records_conflicts = true;
  CommonLabels labels = {};  // the labels of the graph
};

Choice Choose(const ChoiceSettings& settings, const ChoiceRequest& request);

}  // namespace shardc::step

#endif  // SHARDC_STEP_CHOOSE_H_
