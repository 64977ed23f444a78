// Counts the parameters and bytes that each rule of a plan wins (is the first
// to match).
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
  // The number of parameters that the rule wins: no earlier rule matches them.
  int64_t won = 0;
  // Bytes of the `won` parameters; an unknown size is counted as 0.
  int64_t bytes = 0;
  // `found` is the number of parameters that the pattern matches; nullopt if
  // the names were not searched. `shadowed_by` is set if the rule matches
  // parameters but wins none of them. `shadowed_by` is then the index of the
  // rule that wins most of these parameters.
  std::optional<int64_t> found;
  std::optional<size_t> shadowed_by;
};

struct Coverage {
  std::vector<RuleLine> rules;  // in the order of the plan
  int64_t no_rule = 0;          // number of parameters that no rule matches
  // Bytes of the parameters that no rule matches.
  int64_t no_rule_bytes = 0;
  int64_t bytes = 0;  // bytes of all parameters
  int64_t most = 0;   // the largest number of bytes that one rule wins

  // Returns the number of rules that match no parameter. If RuleLine::found is
  // nullopt, a rule is counted if it is the first match of no parameter.
  int64_t Dead() const;
  // Returns the number of rules that match parameters, each of which an earlier
  // rule matches too.
  int64_t Shadowed() const;
};

Coverage CoverageOf(const FoldedPlan& plan);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_COVERAGE_H_
