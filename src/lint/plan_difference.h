// What differs between two plans, in words.
#ifndef SHARDC_LINT_PLAN_DIFFERENCE_H_
#define SHARDC_LINT_PLAN_DIFFERENCE_H_

#include <optional>
#include <string>
#include <vector>

#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// "the spec of `layers.*.up` (2 parameters) was ["tp"] and is [null]"
struct PlanDifference {
  Place place;  // in the plan that was
  std::string message;
  std::vector<std::string> params;
};

// Compares two plans in JSON, field by field, whatever their fingerprints say,
// folded over layers. Empty where they say the same, perhaps in other words
// (order, spacing, `source`). Nothing where one is no plan, which goes to
// `errors`.
std::optional<std::vector<PlanDifference>> ComparePlans(const SourceRef& was,
                                                        const SourceRef& given,
                                                        Findings& errors);

}  // namespace shardc

#endif  // SHARDC_LINT_PLAN_DIFFERENCE_H_
