// A partition spec: for each dimension the mesh axes that shard it.
#ifndef SHARDC_SHARDC_SPEC_H_
#define SHARDC_SHARDC_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardc/version.h"

namespace shardc::SHARDC_V1 {

// Sizes in elements, major dimension first; empty for a scalar.
using Shape = std::vector<int64_t>;
// The axes of one dimension, most significant first; empty: unsharded.
using AxisGroup = std::vector<std::string>;
// May be shorter than a tensor's rank: the remaining dimensions are unsharded.
using Spec = std::vector<AxisGroup>;

// The kind of program that runs; rules may give each mode other specs.
enum class Mode { kTrain, kPrefill, kDecode, kInsert };

// In the form of a plan's JSON: `[["fsdp", "sp"], "tp", null]`.
std::string SpecText(const Spec& spec);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_SPEC_H_
