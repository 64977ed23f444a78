// Lowers a graph under a plan's specs to a program.
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
  Sizes sizes = {};  // real sizes: choices depend on bytes
  int64_t element_bytes = 2;
  Policy policy = Policy::kPublished;
  // Whether the backward pass uses the copies that the forward pass has
  // gathered.
  bool keep_gathered = false;
  // Whether Program::conflicts is filled in, which takes about as long as the
  // rest of the lowering.
  bool records_conflicts = true;
  // The specs of the stored parameters, in the order of Graph::parameters.
  std::vector<Spec> parameters = {};
  // The specs of the optimizer's moments and of gradients at the end of the
  // step, which ZeRO shards further. If empty, the parameters' specs are used.
  std::vector<Spec> states = {};
  // The specs of gradients while micro-batches are accumulated. If empty, the
  // parameters' specs are used.
  std::vector<Spec> sums = {};
  ShardingConstraints constraints = {};
};

// Why a graph cannot be lowered, with the op and the axis at fault.
struct Unsupported {
  std::string message = {};  // lower case, no final period
  std::string op = {};
  std::string axis = {};
};

// Returns the program. Returns nullopt and sets `why` if the graph cannot be
// lowered under these specs.
std::optional<Program> Lower(const LowerRequest& request, Unsupported& why);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LOWER_H_
