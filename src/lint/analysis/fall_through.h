// Finds large parameters that are replicated because only a catch-all matches
// them.
#ifndef SHARDC_LINT_ANALYSIS_FALL_THROUGH_H_
#define SHARDC_LINT_ANALYSIS_FALL_THROUGH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Parameters with fewer elements are mostly norms, biases and routers, which
// users often replicate on purpose.
inline constexpr int64_t kLargeElements = 65536;

// A dead rule, and the parameters for which it was probably intended.
struct IntendedFallThrough {
  NearRule intended;
  const ParameterGroup* group = nullptr;
  // Another group whose name is at most one edit further away from the rule.
  std::optional<NearRule> also;
  const ParameterGroup* also_group = nullptr;
};

// Returns the number of edits between the parts in which the rule and the name
// differ.
int64_t EditsOf(const NearRule& near);

struct FallThrough {
  int32_t rule = -1;                          // the catch-all
  std::vector<const ParameterGroup*> groups;  // most bytes first
  int64_t bytes = 0;
  std::vector<IntendedFallThrough> intended;  // each dead rule at most once
};

// Returns one record for each catch-all that replicates large parameters with
// at least a fifth of the model's bytes. A twentieth is enough if a dead rule
// was probably intended for one of these parameters. Smaller parts of a model
// may be replicated on purpose. Returns an empty list if all rules are
// catch-alls.
std::vector<FallThrough> CatchAllFallThroughs(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FALL_THROUGH_H_
