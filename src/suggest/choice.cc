#include "suggest/choice.h"

#include <algorithm>

namespace shardc::suggest {

AxisPurpose PurposeOf(std::string_view logical_axis) {
  if (logical_axis == "FSDP" || logical_axis == "SP" || logical_axis == "EP") {
    return AxisPurpose::kData;
  }
  return logical_axis == "EXPERT" ? AxisPurpose::kExpert : AxisPurpose::kTensor;
}

int64_t PartsOf(const std::vector<AxisAssignment>& assigned) {
  int64_t parts = 1;
  for (const AxisAssignment& one : assigned) parts *= one.size;
  return parts;
}

int64_t PartsOf(const AxisSpec& spec) {
  int64_t parts = 1;
  for (const auto& dim : spec) parts *= PartsOf(dim);
  return parts;
}

bool IsReplicated(const AxisSpec& spec) {
  return std::all_of(spec.begin(), spec.end(),
                     [](const auto& dim) { return dim.empty(); });
}

}  // namespace shardc::suggest
