// Finds the members in which two JSON entries of a parameter differ.
#ifndef SHARDC_PLAN_DIFFERENCE_ENTRY_FIELDS_H_
#define SHARDC_PLAN_DIFFERENCE_ENTRY_FIELDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_ENTRY_FIELDS_H_
