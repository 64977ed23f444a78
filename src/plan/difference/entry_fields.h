// Which members of one parameter's JSON differ.
#ifndef SHARDC_PLAN_DIFFERENCE_ENTRY_FIELDS_H_
#define SHARDC_PLAN_DIFFERENCE_ENTRY_FIELDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "source/json.h"

namespace shardc {

// A member that differs, without the parameter's name, so that all parameters
// with the same two entries share it.
struct EntryChange {
  std::string field;                         // "modes.decode.spec"
  std::optional<std::string> before, after;  // JSON; nothing: absent
  std::string subject;  // what precedes the name: "the spec of "
  std::string verdict;  // what follows it: " was ["tp"] and is [null]"
  // The byte range in the first entry, counted from the entry's beginning;
  // nothing if the entry has no such member.
  std::optional<size_t> begin, end;
};

// The patterns of a plan's rules as JSON, by index.
using RulePatterns = std::vector<std::string>;

// Members that follow from others (sizes from a spec, a rule's index from the
// list of rules) are compared only if shape, dtype and specs are equal.
std::vector<EntryChange> CompareEntries(const JsonValue& before,
                                        const JsonValue& after,
                                        const RulePatterns& rules_before,
                                        const RulePatterns& rules_after);

// " was X and is Y"
std::string WasAndIs(const std::string& before, const std::string& after);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_ENTRY_FIELDS_H_
