// The form of a plan's JSON: which members it has, and their types.
#ifndef SHARDC_PLAN_PLAN_FORM_H_
#define SHARDC_PLAN_PLAN_FORM_H_

#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns whether the plan has the form that schemas/plan.schema.json
// describes: all members that it requires, no other ones, each of its type.
// Findings: schema and unknown-key, at the member.
bool HasPlanForm(const JsonValue& root, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLAN_FORM_H_
