// Reads which layers of a model have attention or a window from a config.json.
#ifndef SHARDC_PARSE_LAYER_KINDS_H_
#define SHARDC_PARSE_LAYER_KINDS_H_

#include "model/project.h"
#include "parse/config_fields.h"

namespace shardc {

// Sets whether the model has an encoder and whether it is causal, and counts
// the layers with attention and the layers with a window. A list with the kind
// of each layer takes precedence over a pattern, and a pattern over the default
// of the family. The caller has set the number of layers and the window in
// `config`, if the model has them.
void ReadLayerKinds(ConfigFields& fields, ModelConfig& config);

}  // namespace shardc

#endif  // SHARDC_PARSE_LAYER_KINDS_H_
