// What differs between two step programs, in words.
#ifndef SHARDC_LINT_STEP_DIFFERENCE_H_
#define SHARDC_LINT_STEP_DIFFERENCE_H_

#include <optional>
#include <vector>

#include "lint/plan_difference.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// Compares two step programs, shardc.step/v1 without their proofs: of each mode
// its settings and its collectives, folded over layers as they stand there.
// Empty and nothing as for plans.
std::optional<std::vector<PlanDifference>> CompareSteps(const SourceRef& was,
                                                        const SourceRef& given,
                                                        Findings& errors);

}  // namespace shardc

#endif  // SHARDC_LINT_STEP_DIFFERENCE_H_
