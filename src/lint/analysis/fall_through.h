// Large parameters that only a catch-all matches, which replicates them.
#ifndef SHARDC_LINT_ANALYSIS_FALL_THROUGH_H_
#define SHARDC_LINT_ANALYSIS_FALL_THROUGH_H_

#include <cstdint>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Smaller parameters are norms, biases and routers, which are commonly
// replicated.
inline constexpr int64_t kLargeElements = 65536;

struct IntendedFallThrough {
  NearRule intended;
  const ParameterGroup* group = nullptr;
};

struct FallThrough {
  int32_t rule = -1;                          // the catch-all
  std::vector<const ParameterGroup*> groups;  // most bytes first
  int64_t bytes = 0;
  std::vector<IntendedFallThrough> intended;  // dead rules, each once
};

// One for each catch-all that replicates a fifth of the model or more, or a
// twentieth for which a dead rule was intended: less may be intended. None if
// the rule set has only catch-alls.
std::vector<FallThrough> CatchAllFallThroughs(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FALL_THROUGH_H_
