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
// - groups with a name that several of their own patterns match
// Only the first such name of each group is considered; the message for it is
// stored in `patterns.unproven`. If the patterns cannot be compiled, the reason
// is stored there, and {0} is returned.
std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns);

// Sets `missed` of each pattern that begins with `^`: the groups whose names
// look like optimizer states of parameters that the pattern matches, although
// it does not match these names. `^w$` matches `w`, and misses `opt_state.w`.
void FindMissed(const Tree& tree, Patterns& patterns);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERN_PROOF_H_
