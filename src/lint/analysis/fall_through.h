// Finds large parameters that are replicated because only a catch-all (a rule
// that matches every name) matches them.
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
  // A second group, to which the rule is almost as near. The edit distance from
  // the rule to its name is at most 1 more than the distance to the name of
  // `group`.
  std::optional<NearRule> also;
  const ParameterGroup* also_group = nullptr;
};

// Returns the edit distance between the differing parts of a rule and a name: 1
// for `atn/c_proj` and attn/c_proj.
int64_t EditsOf(const NearRule& near);

struct FallThrough {
  int32_t rule = -1;                          // index of the catch-all
  std::vector<const ParameterGroup*> groups;  // the group with most bytes first
  int64_t bytes = 0;
  std::vector<IntendedFallThrough> intended;  // at most one for each dead rule
};

// Returns one record for each catch-all that replicates large parameters with
// at least 20 % of the model's bytes. Smaller parts of a model may be
// replicated on purpose. 5 % are enough if a dead rule (a rule that matches
// nothing) was probably intended for one of these parameters. Returns an empty
// list if all rules are catch-alls.
std::vector<FallThrough> CatchAllFallThroughs(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FALL_THROUGH_H_
