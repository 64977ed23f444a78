// Matches the suggested patterns with all parameter names, to prove that
// exactly one pattern matches each name.
#ifndef SHARDC_SUGGEST_PATTERN_PROOF_H_
#define SHARDC_SUGGEST_PATTERN_PROOF_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "suggest/patterns.h"

namespace shardc::suggest {

// A name must be matched by exactly one pattern, of its own rule. Returns the
// message for a name that breaks this. `matches` is the number of patterns that
// match the name. If it is 1, the pattern is of another rule.
std::string MatchFault(std::string_view name, size_t matches);

// Matches all patterns with all names. Returns the groups that must change:
// - groups whose pattern matches a name of another group
// - groups with a name that no pattern matches
// Only the first such name of each group is examined. The message for one of
// these names is stored in `patterns.unproven`. If the patterns cannot be
// compiled, the reason is stored there. {0} is then returned, because an empty
// set would mean that the patterns are proven.
std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns);

// Sets `missed` of each pattern that begins with `^`. A name that ends in the
// name of a matched parameter may be an optimizer state of this parameter. If
// the pattern does not match it, the parameter group of the state is added to
// `missed`. For example, `^w$` matches `w`, but not the state `opt_state.w`.
void FindMissed(const Tree& tree, Patterns& patterns);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERN_PROOF_H_
