// Compares the members of two plans, except for the entries of parameters.
#ifndef SHARDC_PLAN_DIFFERENCE_PLAN_FIELDS_H_
#define SHARDC_PLAN_DIFFERENCE_PLAN_FIELDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plan/difference/plan_difference.h"
#include "source/json.h"

namespace shardc {

// A member that differs between two entries. The parameter's name is not part
// of it, so all parameters with the same two entries share one EntryChange.
struct EntryChange {
  std::string field;  // The path of the member, such as "modes.decode.spec".
  // The member's value as JSON; nullopt if the entry has no such member.
  std::optional<std::string> before, after;
  // The text before the parameter's name, such as "the spec of ".
  std::string subject;
  // The text after the parameter's name, such as " was ["tp"] and is [null]".
  std::string verdict;
  // The byte range of the member in the first entry, counted from the beginning
  // of the entry. For "modes.decode.spec" it is the range of the entry of
  // `decode`. nullopt if the first entry has no such member, and for the field
  // `rule`.
  std::optional<size_t> begin, end;
};

// The patterns of a plan's rules as JSON, indexed by rule.
using RulePatterns = std::vector<std::string>;

// Compares two entries. If shape, dtype or a spec differs, the winning rule's
// pattern, the sizes and the corrections usually differ too. They are therefore
// compared only if shape, dtype and specs are equal. The same holds for members
// that shardc does not know.
std::vector<EntryChange> CompareEntries(const JsonValue& before,
                                        const JsonValue& after,
                                        const RulePatterns& rules_before,
                                        const RulePatterns& rules_after);

// Returns the text " was BEFORE and is AFTER".
std::string WasAndIs(const std::string& before, const std::string& after);

// The members of a plan's JSON. Any of them may be absent or of the wrong type.
struct PlanJson {
  explicit PlanJson(JsonValue of) : root(of), members(MembersOf(of)) {}
  // Returns the place of the member, or of the plan if the member is absent.
  Place PlaceOf(std::string_view member) const;
  RulePatterns Patterns() const;

  JsonValue root;
  JsonMembers members;
};

// These functions append differences to `to.fields`. CompareActivationFields
// also appends to `to.attention` and `to.activations`.
void CompareMeshFields(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to);
void CompareActivationFields(const PlanJson& before, const PlanJson& after,
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
