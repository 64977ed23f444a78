// The units that stages of a pipeline are made of: the first unit (embeddings),
// each layer, and the last unit (the final norm and the head).
#ifndef SHARDC_PLAN_STAGE_UNITS_H_
#define SHARDC_PLAN_STAGE_UNITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "plan/compile.h"
#include "plan/layer_range.h"
#include "plan/stages.h"
#include "source/finding.h"

namespace shardc {

// Layers that some tensors hold in one dimension.
struct LayerStackRange {
  int dim = 0;
  int64_t first = 0;  // its first layer in the model
  int64_t layers = 0;
  // Dimensions that count the layers together: 1, or 3 from `dim` on.
  int dims = 1;
};

struct StageUnits {
  static constexpr int64_t kStacked = -1;

  int64_t layers = 0;
  // By parameter of the plan: 0 the first unit, 1 + l layer l, layers + 1 the
  // last unit; kStacked: the layers of a stack.
  std::vector<int64_t> of;
  // Parameters of the first unit that the last one needs as well, because the
  // head is the embedding.
  std::vector<bool> tied;
  std::vector<LayerStackRange> stacks;
  std::vector<uint32_t> stack_of;  // by parameter; empty without stacks

  int64_t count() const { return layers + 2; }
  // Null if the parameter is in no stack.
  const LayerStackRange* StackOf(size_t param) const {
    return of[param] == kStacked ? &stacks[stack_of[param]] : nullptr;
  }
};

// Reads the layer of each parameter as the request's file states, or without
// one from the number in its name. Findings: parameter-outside-stages,
// layer-without-stage, those of patterns, and usage if the names have no layers
// or two chains of them.
std::optional<StageUnits> StageUnitsOf(const Compiled& compiled,
                                       const StageRequest& request,
                                       Findings& findings);

// The mesh of one stage: without the axis of the stages, with the hosts of a
// stage's devices.
Mesh StageMesh(const Mesh& mesh, const std::string& axis);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGE_UNITS_H_
