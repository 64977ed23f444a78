// Compares the members of two plans, except for the entries of parameters.
#ifndef SHARDC_PLAN_DIFFERENCE_PLAN_FIELDS_H_
#define SHARDC_PLAN_DIFFERENCE_PLAN_FIELDS_H_

#include <string>
#include <vector>

#include "plan/difference/entry_fields.h"
#include "plan/difference/plan_difference.h"
#include "source/json.h"
#include "source/json_members.h"

namespace shardc {

// The members of a plan's JSON. Any of them may be absent or of the wrong type.
struct PlanJson {
  explicit PlanJson(JsonValue of) : root(of), members(MembersOf(of)) {}
  // Returns the place of the member, or of the plan if the member is absent.
  Place PlaceOf(std::string_view member) const;
  RulePatterns Patterns() const;

  JsonValue root;
  JsonMembers members;
};

// These functions append differences to `to.fields`. CompareAttentionFields
// also appends to `to.attention`.
void CompareMeshFields(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to);
void CompareAttentionFields(const PlanJson& before, const PlanJson& after,
                            PlanDifference& to);
// Compare the remaining members. Some of them follow from other members: the
// numbers in rules, the summary and the fingerprint. These are compared only if
// nothing else differs, for example because one of the plans was edited.
// Therefore CompareRuleFields and then CompareRemainingFields must be called
// after all other functions.
void CompareRuleFields(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to);
void CompareRemainingFields(const PlanJson& before, const PlanJson& after,
                            PlanDifference& to);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_PLAN_FIELDS_H_
