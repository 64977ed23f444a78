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
// a number, as in `layers.5.mlp`, or a number at the end of a part after a word
// for layers, as in `decoder/layers_5/mlp/wi/kernel`. If the first part of the
// name is a number, this part is not a layer. Returns nullopt if no part has a
// layer number.
std::optional<LayerName> LayerOf(std::string_view name, char separator);

// Returns the name with `*` for numbers, as NameTemplate() of model/name.h, and
// for the number of the layer where a word precedes it:
// `decoder/layers_5/mlp/wi/kernel` -> `decoder/layers_*/mlp/wi/kernel`.
std::string LayerTemplate(std::string_view name, char separator);

// IsBeforeLayers() returns whether a parameter outside of layers is a token or
// position embedding, and IsAfterLayers() whether it is a norm or a head, by
// its role or by a word in its name.
bool IsBeforeLayers(const ParameterRole& role, std::string_view name);
bool IsAfterLayers(const ParameterRole& role, std::string_view name);

}  // namespace shardc

#endif  // SHARDC_ROLES_LAYER_UNITS_H_
