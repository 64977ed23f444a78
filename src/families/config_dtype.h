// Reads the dtypes of a model's parameters from its config.json: that of all
// parameters, and those of quantised weights.
#ifndef SHARDC_FAMILIES_CONFIG_DTYPE_H_
#define SHARDC_FAMILIES_CONFIG_DTYPE_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
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

// A tensor of a tree that is the weight of a linear module, or the weights of
// experts that are stacked in one tensor.
struct LinearWeight {
  size_t tensor = 0;  // index into Manifest::tensors
  // Whether the last two sizes are [in, out], and not [out, in].
  bool inputs_first = false;
};

// Returns the dtype of the tensors that are not quantised, if the config states
// a known method of quantisation and names no dtype. Returns nullopt for other
// methods, and without quantisation.
std::optional<Dtype> QuantisedModelDtype(JsonValue config);

// Replaces the weights `linear`, which are in the order of the tree, by the
// tensors in which a checkpoint stores them by the method that the config's
// `quantization_config` states, and adds a note. Returns false, without a
// change, if the method is not known or states something that is not supported.
bool Quantise(JsonValue config, const std::vector<LinearWeight>& linear,
              Manifest& tree);

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_CONFIG_DTYPE_H_
