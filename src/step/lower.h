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

}  // namespace shardc::step

#endif  // SHARDC_STEP_LOWER_H_
