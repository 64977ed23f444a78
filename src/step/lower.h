// Lowers a graph, whose parameters are sharded by a plan's specs, to a program
// for each device of a mesh. For each op, the lowering chooses which label each
// mesh axis shards.
#ifndef SHARDC_STEP_LOWER_H_
#define SHARDC_STEP_LOWER_H_

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "step/constraints.h"
#include "step/op_def.h"
#include "step/program.h"

namespace shardc::step {

// Chooses which label of an op each mesh axis shards.

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

struct LowerRequest {
  const Graph* graph = nullptr;
  Mesh mesh = {};
  // The real sizes of the model, even if the program will run at reduced sizes,
  // because the choice of shardings depends on bytes.
  Sizes sizes = {};
  int64_t element_bytes = 2;
  Policy policy = Policy::kPublished;
  // Whether the backward pass uses the copies of weights that the forward pass
  // has gathered.
  bool keep_gathered = false;
  // Whether Program::conflicts is set. Finding the conflicts takes about as
  // long as the rest of the lowering.
  bool records_conflicts = true;
  // The specs of the stored parameters, in the order of Graph::parameters.
  std::vector<Spec> parameters = {};
  // The specs of the optimizer's moments and of the final gradients, which ZeRO
  // shards further than the parameters. If empty, the parameters' specs are
  // used.
  std::vector<Spec> states = {};
  // The specs of gradients while they are accumulated over micro-batches. If
  // empty, the parameters' specs are used.
  std::vector<Spec> sums = {};
  ShardingConstraints constraints = {};
};

// The reason why a graph cannot be lowered, with the name of the op and of the
// axis.
struct Unsupported {
  // The message, in lower case and without a final period.
  std::string message = {};
  std::string op = {};
  std::string axis = {};
};

// Returns the program. Returns nullopt and sets `why` if the graph cannot be
// lowered under these specs.
std::optional<Program> Lower(const LowerRequest& request, Unsupported& why);

struct PreferredSharding {
  std::optional<Sharding> sharding = {};
  // Whether the value is a parameter's gradient, or is only used to compute
  // one. Axes are then chosen for it as for a weight.
  bool gradient = false;
  // True if the sharding is a constraint of the value itself; false if it is a
  // preference of the value's consumer.
  bool constrained = false;
  // Whether the value may stay partial over axes that the sharding does not
  // use.
  bool keeps_partial = false;
};

// Returns the preferred sharding of each value, indexed by ValueId. A
// constraint may name an axis that cannot shard the dimension. A message about
// each such axis is appended to `notes` (Program::notes).
std::vector<PreferredSharding> PropagatePreferred(
    const LowerRequest& request, const Axes& axes,
    std::vector<std::string>& notes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LOWER_H_
