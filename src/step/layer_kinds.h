// Finds the layers of a model whose ops are the same.
#ifndef SHARDC_STEP_LAYER_KINDS_H_
#define SHARDC_STEP_LAYER_KINDS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/axis_rules.h"
#include "model/model_description.h"
#include "model/project.h"
#include "step/roles.h"

namespace shardc::step {

// Returns a number for each layer of all stacks. Two layers have the same
// number if they are in the same stack and have the same roles, with parameters
// of the same class and as many tensors each, the same settings, and the same
// lines whose `if` holds: their ops then differ in nothing but the layer's
// number. `class_of_row` has an entry for each tensor of the manifest; tensors
// of one class must have the same sharding. Returns nullopt if the settings or
// the `if` conditions of a layer cannot be evaluated.
std::optional<std::vector<int32_t>> LayerKinds(
    const ModelDescription& description, const ModelConfig* config,
    const Roles& roles, Mode mode, std::span<const uint32_t> class_of_row);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LAYER_KINDS_H_
