// Divides a model into units. A pipeline stage has consecutive units: the first
// unit (the embeddings), each layer, and the last unit (the final norm and the
// head).
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

// The layers that the tensors of one layer stack hold.
struct LayerStackRange {
  int dim = 0;
  int64_t first = 0;  // The index in the model of the stack's first layer.
  int64_t layers = 0;
  // Over how many dimensions, from `dim` on, the layers extend: 1, or 3 for
  // [virtual stages, ranks, layers of a stage].
  int dims = 1;
};

struct StageUnits {
  static constexpr int64_t kStacked = -1;

  int64_t layers = 0;
  // Indexed by parameter: its unit, which is 0 for the first unit, 1 + l for
  // layer l, and layers + 1 for the last unit. kStacked marks a tensor that
  // holds several layers.
  std::vector<int64_t> of;
  // Indexed by parameter: whether the last unit needs this parameter of the
  // first unit, because the head and the embedding are the same tensor.
  std::vector<bool> tied;
  std::vector<LayerStackRange> stacks;
  // Indexed by parameter: its index in `stacks`, if `of` is kStacked. Empty
  // without stacks.
  std::vector<uint32_t> stack_of;

  int64_t count() const { return layers + 2; }
  // Returns the stack of a parameter, or null if the parameter is in no stack.
  const LayerStackRange* StackOf(size_t param) const {
    return of[param] == kStacked ? &stacks[stack_of[param]] : nullptr;
  }
};

// Finds the unit of each parameter by the patterns of the request's
// declaration. Without a pattern, the layer's number in the name is used. On
// failure, returns nullopt and adds a finding with one of these codes:
// - parameter-outside-stages or layer-without-stage
// - limit, if the model has too many layers
// - usage, if the names have no layers, or if layers are counted under two
//   prefixes such as `encoder.block` and `decoder.block`
// - a code of a malformed pattern
std::optional<StageUnits> StageUnitsOf(const Compiled& compiled,
                                       const StageRequest& request,
                                       Findings& findings);

// Returns the mesh of one stage: the axis of the stages has size 1, and the
// devices, processes and slices are one stage's share. Returns `mesh` if it
// lacks the axis.
Mesh StageMesh(const Mesh& mesh, const std::string& axis);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGE_UNITS_H_
