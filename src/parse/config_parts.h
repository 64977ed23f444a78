// Reads the parts of a config.json that only some facts need: the sizes of
// towers next to the language model, and the order of a quantised weight's
// inputs.
#ifndef SHARDC_PARSE_CONFIG_PARTS_H_
#define SHARDC_PARSE_CONFIG_PARTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/project.h"

namespace shardc {

// The attention of a tower: a part of a model next to its language model, such
// as a vision or an audio encoder, whose sizes an object of the configuration
// states.
struct TowerConfig {
  std::string key;  // the object's key, such as "vision_config"
  // All are at least 1 and at most 2^20. `width` is the size of the activations
  // that the tower's blocks read; its attention has `heads` query heads and
  // `kv_heads` KV heads of `head_dim`.
  int64_t heads = 0, kv_heads = 0, head_dim = 0, width = 0;
};

struct ConfigParts {
  std::vector<TowerConfig> towers;
  // Whether the inputs of quantised weights are reordered, so that the inputs
  // that share a scale are not consecutive (act-order: `desc_act` of GPTQ, or
  // `actorder: group` of compressed-tensors). It is absent if the file does not
  // state it.
  std::optional<bool> act_order;
  // The setting that states it, such as "desc_act true".
  std::string act_order_setting;
};

// Reads the text of `model.source`. The result is empty if the model has no
// such text, as with `--attention`. ReadModelConfig has reported what is
// invalid, so that invalid values are treated as absent here.
ConfigParts ReadConfigParts(const ModelConfig& model);

}  // namespace shardc

#endif  // SHARDC_PARSE_CONFIG_PARTS_H_
