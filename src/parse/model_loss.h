// Reads the entry of a `model:` section that states how the loss is computed:
//
//   loss: {kind: compiled, chunk: 2048}
//
// Most other settings of a `model:` section are expressions. These values are
// not: `kind` is one of a few names, and `chunk` is a number.
#ifndef SHARDC_PARSE_MODEL_LOSS_H_
#define SHARDC_PARSE_MODEL_LOSS_H_

#include "yaml/read.h"

namespace shardc {

// The YAML nodes of the values. A node is null if its value is absent or
// invalid. The value of a node may be the YAML value null, which removes the
// value that is inherited from the `model:` section named in `extends`.
struct ModelLoss {
  const YamlNode* kind = nullptr;
  const YamlNode* chunk = nullptr;  // number of tokens of a device in one chunk
};

// Reads the mapping `node`. Adds a finding for each invalid value.
ModelLoss ReadModelLoss(const YamlContext& context, const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_LOSS_H_
