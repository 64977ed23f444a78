// From a graph and a plan to a program.
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
  Sizes sizes = {};  // the real ones: choices depend on bytes
  int64_t element_bytes = 2;
  Policy policy = Policy::kPublished;
  // Copies that forward gathered serve backward too.
  bool keep_gathered = false;
  std::vector<Spec> parameters = {};  // by Graph::parameters, as stored
  ShardingConstraints constraints = {};
};

// Why there is no program.
struct Unsupported {
  std::string message = {};  // lower case, no final period
  std::string op = {};
  std::string axis = {};
};

std::optional<Program> Lower(const LowerRequest& request, Unsupported& why);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LOWER_H_
