// Checks the form of a plan's JSON: which members it has, and their types.
#ifndef SHARDC_PLAN_PLAN_FORM_H_
#define SHARDC_PLAN_PLAN_FORM_H_

#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns whether the plan has the form that schemas/plan.schema.json
// describes: it has all required members and no unknown member, and each member
// has its type. If not, adds one finding. Its code is unknown-key for an
// unknown member, or schema for a value of the wrong type or an object that
// lacks a member.
bool HasPlanForm(const JsonValue& root, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLAN_FORM_H_
