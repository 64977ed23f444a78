// Fused projections: query, key and value, or gate and up, in one matrix.
#ifndef SHARDC_LINT_ANALYSIS_FUSED_H_
#define SHARDC_LINT_ANALYSIS_FUSED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

struct FusedPart {
  std::string name;
  int64_t size = 0;
};

// Parts that are stored one after the other, sizes in elements.
struct Fused {
  int dim = 0;
  std::vector<FusedPart> parts;  // of different sizes, at least one
};

// Empty if the group is no fused projection, or the sizes of its parts are
// unknown.
std::optional<Fused> FusedOf(const Facts& facts, const ParameterGroup& group);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FUSED_H_
