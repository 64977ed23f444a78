// Reads from a config.json which layers of a model have attention, and which
// layers attend only within a window.
#ifndef SHARDC_PARSE_LAYER_KINDS_H_
#define SHARDC_PARSE_LAYER_KINDS_H_

#include "model/project.h"
#include "parse/config_fields.h"

namespace shardc {

// Sets whether the model has an encoder and whether it is causal. Counts the
// layers with attention and the layers with a window, and lists what each layer
// keeps of a request's tokens. If the config lists the
// kind of each layer, the list is used. Otherwise a pattern in the config is
// used, and otherwise the default of the family. The caller has set the number
// of layers and the window in `config`, if the model has them.
void ReadLayerKinds(ConfigFields& fields, ModelConfig& config);

}  // namespace shardc

#endif  // SHARDC_PARSE_LAYER_KINDS_H_
