// Detects plans that were edited after the compiler wrote them.
#ifndef SHARDC_PLAN_SEAL_H_
#define SHARDC_PLAN_SEAL_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "plan/read.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// The parameters of a plan's file, grouped into classes. Parameters with the
// same entry are one class. `names` has the names of all parameters in the
// file's order. class_of[i] is the index of the class of parameter i. The entry
// of the class with index c is member c of `params` in the argument `root` of
// IsUnedited().
struct PlanClasses {
  std::span<const std::string_view> names;
  std::span<const uint32_t> class_of;
};

// Returns whether a plan is unedited. An unedited plan has the members and
// types that plan/seal.cc requires. Its fingerprint is the fingerprint of
// its content. Its shard shapes, bytes and totals follow from its shapes, specs
// and mesh. `plan` was read from `root` and has one parameter for each class.
// If the plan was edited, adds one finding: that of HasPlanForm, or one with
// the code schema at the first member with an unexpected value.
bool IsUnedited(const JsonValue& root, const ReadPlan& plan,
                const PlanClasses& classes, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_SEAL_H_
