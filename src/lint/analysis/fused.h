// Projections that pack several in one: queries, keys and values, or gate and
// up.
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

// Where parts stand one behind the other, sizes in elements.
struct Fused {
  int dim = 0;
  std::vector<FusedPart> parts;  // of different sizes, at least one
};

// Nothing where the group is no fused projection, or its parts cannot be told.
std::optional<Fused> FusedOf(const Facts& facts, const ParameterGroup& group);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FUSED_H_
