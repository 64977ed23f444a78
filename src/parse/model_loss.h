// Reads how the loss of a `model:` section is computed:
//
//   loss: {kind: compiled, chunk: 2048}
//
// The values are a word and a number. Most other settings of a `model:` section
// are expressions.
#ifndef SHARDC_PARSE_MODEL_LOSS_H_
#define SHARDC_PARSE_MODEL_LOSS_H_

#include "yaml/read.h"

namespace shardc {

// The nodes of the values; null if a value is absent or wrong. A node may be
// the YAML value null, which removes an inherited value.
struct ModelLoss {
  const YamlNode* kind = nullptr;
  const YamlNode* chunk = nullptr;  // tokens of a device in one chunk
};

// Adds a finding for each value that is wrong.
ModelLoss ReadModelLoss(const YamlContext& context, const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_LOSS_H_
