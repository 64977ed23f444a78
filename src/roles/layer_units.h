// Finds the layer to which a parameter belongs. For a parameter outside the
// layers, finds whether it comes before or after them.
#ifndef SHARDC_ROLES_LAYER_UNITS_H_
#define SHARDC_ROLES_LAYER_UNITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "roles/classify.h"

namespace shardc {

struct LayerName {
  std::string_view chain;  // the name before the number, such as `model.layers`
  // The name up to the number, such as `model.layers.5`.
  std::string_view module;
  int64_t layer = 0;
};

// Finds the layer in a name. The number of the layer is the first part that is
// a number, as in `layers.5.mlp`. The number may also be at the end of a part,
// after a word for layers and `_`, as in `decoder/layers_5/mlp/wi/kernel` (see
// StemLength() of model/name.h). If the first part of the name is a number,
// this part is not a layer. Returns nullopt if no part has a layer number.
std::optional<LayerName> LayerOf(std::string_view name, char separator);

// Returns the role of a parameter outside of layers by its name. There,
// `output.weight` is the output head, and not a projection of a layer.
ParameterRole RoleOfEnd(std::string_view name, char separator);

// For a parameter outside of layers, IsBeforeLayers() returns whether it is a
// token or position embedding. IsAfterLayers() returns whether it is a norm or
// an output head. Both use the role of the parameter (RoleOfEnd). The words in
// its name decide only where the role does not: `embed_out` is a head, although
// it has the word `embed`.
bool IsBeforeLayers(const ParameterRole& role, std::string_view name);
bool IsAfterLayers(const ParameterRole& role, std::string_view name);

}  // namespace shardc

#endif  // SHARDC_ROLES_LAYER_UNITS_H_
