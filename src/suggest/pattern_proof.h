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

// Returns the message for a name that is not matched by exactly one pattern, of
// its own rule. `matches` is the number of patterns that match the name. If it
// is 1, the one pattern is of another rule.
std::string MatchFault(std::string_view name, size_t matches);

// Matches all patterns with all names. Returns the groups whose patterns have
// to change: a group whose pattern matches a name of another group, a group
// with a name that no pattern matches, and a group with a name that several of
// its own patterns match. Only the first such name of each group is considered;
// the message for it is stored in `patterns.unproven`. If the patterns cannot
// be compiled, the reason is stored there, and {0} is returned.
std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns);

// Sets `missed` of each pattern that begins with `^`. These are the groups that
// linting would report as optimizer states of the matched parameters, because
// the pattern does not match the names of the states.
void FindMissed(const Tree& tree, Patterns& patterns);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERN_PROOF_H_
