// What each rule won of a plan, in parameters and bytes.
#ifndef SHARDC_PICTURE_COVERAGE_H_
#define SHARDC_PICTURE_COVERAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "picture/fold.h"

namespace shardc::picture {

struct RuleLine {
  std::string match, source;
  int64_t won = 0;    // parameters
  int64_t bytes = 0;  // of the model, those of known size
  // Parameters that its pattern is found in, where names were searched; and of
  // a rule that won none of them, the rule that took most.
  std::optional<int64_t> found;
  std::optional<size_t> shadowed_by;
};

struct Coverage {
  std::vector<RuleLine> rules;  // in order
  int64_t no_rule = 0;          // parameters that none won
  int64_t no_rule_bytes = 0;
  int64_t bytes = 0;  // of all
  int64_t most = 0;   // of one rule

  int64_t Dead() const;      // match nothing, or win nothing where that is all
  int64_t Shadowed() const;  // that is known
};

Coverage CoverageOf(const FoldedPlan& plan);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_COVERAGE_H_
