// Reads the dtype of a model's parameters from its config.json.
#ifndef SHARDC_FAMILIES_CONFIG_DTYPE_H_
#define SHARDC_FAMILIES_CONFIG_DTYPE_H_

#include <optional>

#include "model/dtype.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::families {

struct ConfigDtype {
  Dtype dtype = Dtype::kF32;
  bool assumed = false;  // whether the config names no dtype
};

// Returns the dtype that the config names in `dtype` or `torch_dtype`, or else
// the one that its nested `text_config` names. A config that names none gets
// float32, as in transformers. Returns nullopt after a finding if the name is
// unknown.
std::optional<ConfigDtype> ReadConfigDtype(const JsonValue& config,
                                           Findings& findings);

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_CONFIG_DTYPE_H_
