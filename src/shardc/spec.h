// A partition spec: for each dimension the mesh axes that split it.
#ifndef SHARDC_SHARDC_SPEC_H_
#define SHARDC_SHARDC_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardc/version.h"

namespace shardc::SHARDC_V1 {

// Sizes in elements, major dimension first; none: a scalar.
using Shape = std::vector<int64_t>;
// The axes of one dimension, most significant first; empty: it is not split.
using AxisGroup = std::vector<std::string>;
// May be shorter than a tensor's rank: the rest is not split.
using Spec = std::vector<AxisGroup>;

// What a program does when a spec holds; rules may differ in them.
enum class Mode { kTrain, kPrefill, kDecode, kInsert };

// As a plan's JSON has it: `[["fsdp", "sp"], "tp", null]`.
std::string SpecText(const Spec& spec);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_SPEC_H_
