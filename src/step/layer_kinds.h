// Finds the layers of a model that have the same ops.
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

// Returns a number for each layer of all stacks. Layers with the same number
// have ops that differ only in the layer's number. These layers are in the same
// stack, and have the same settings, the same lines whose `if` condition is
// true, and the same roles. For each role, they have the same number of
// tensors, and these tensors have the same class.
//
// `class_of_row` has the class of each tensor of the manifest. Tensors of one
// class must have the same sharding. Returns nullopt if the settings or the
// `if` conditions of a layer cannot be evaluated.
std::optional<std::vector<int32_t>> LayerKinds(
    const ModelDescription& description, const ModelConfig* config,
    const Roles& roles, Mode mode, std::span<const uint32_t> class_of_row);

}  // namespace shardc::step

#endif  // SHARDC_STEP_LAYER_KINDS_H_
