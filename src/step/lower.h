// Lowers a graph, whose parameters are sharded by a plan's specs, to a program
// for each device of a mesh.
#ifndef SHARDC_STEP_LOWER_H_
#define SHARDC_STEP_LOWER_H_

#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "step/choose.h"
#include "step/constraints.h"
#include "step/program.h"

namespace shardc::step {

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
