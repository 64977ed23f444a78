// Finds the layer to which a parameter belongs, or whether the parameter comes
// before or after the layers.
#ifndef SHARDC_ROLES_LAYER_UNITS_H_
#define SHARDC_ROLES_LAYER_UNITS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "roles/classify.h"

namespace shardc {

struct LayerName {
  std::string_view chain;   // the name before the number: `model.layers`
  std::string_view module;  // the name up to the number: `model.layers.5`
  int64_t layer = 0;
};

// Finds the layer in a name: the first part that is a number, as in
// `layers.5.mlp`, or that ends in a number after a word for layers, as in
// `decoder/layers_5/mlp/wi/kernel`. A number that is the first part of the name
// is not a layer. Returns nullopt if the name has no such part.
std::optional<LayerName> LayerOf(std::string_view name, char separator);

// IsBeforeLayers() returns whether a parameter outside of layers is a token or
// position embedding, and IsAfterLayers() whether it is a norm or a head, by
// its role or by a word in its name.
bool IsBeforeLayers(const ParameterRole& role, std::string_view name);
bool IsAfterLayers(const ParameterRole& role, std::string_view name);

}  // namespace shardc

#endif  // SHARDC_ROLES_LAYER_UNITS_H_
