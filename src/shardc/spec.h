// A partition spec: for each dimension the mesh axes that shard it.
#ifndef SHARDC_SHARDC_SPEC_H_
#define SHARDC_SHARDC_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardc/version.h"

namespace shardc::SHARDC_V1 {

// The size of each dimension, major dimension first; empty for a scalar.
using Shape = std::vector<int64_t>;
// The axes that shard one dimension, most significant first; empty if the
// dimension is unsharded.
using AxisGroup = std::vector<std::string>;
// The axes of each dimension. A spec may be shorter than the tensor's rank; the
// remaining dimensions are unsharded.
using Spec = std::vector<AxisGroup>;

// How the model runs: in training, or in one of three parts of inference. A
// rule may have a different spec for each mode.
enum class Mode { kTrain, kPrefill, kDecode, kInsert };

// Returns the JSON text of a spec, as plans have it: `[["fsdp", "sp"], "tp",
// null]`.
std::string SpecText(const Spec& spec);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_SPEC_H_
