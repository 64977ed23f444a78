// Matches patterns with all names of a tree, to prove that each name is matched
// once.
#ifndef SHARDC_SUGGEST_PATTERN_PROOF_H_
#define SHARDC_SUGGEST_PATTERN_PROOF_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "suggest/patterns.h"

namespace shardc::suggest {

// Returns the message for a name that is not matched by exactly one pattern of
// its own rule. `matches` is the number of patterns that match the name: 0,
// several, or 1 if the pattern is of another rule.
std::string MatchFault(std::string_view name, size_t matches);

// Matches the patterns with all names of the tree. Each name must be matched by
// exactly one pattern, of its own group. Returns the groups whose patterns have
// to change: groups whose pattern matches a name of another group, groups with
// a name that no pattern matches, and groups with a name that several of their
// own patterns match. Considers only the first such name of each group, and
// sets `patterns.unproven` to the message for it. If the patterns cannot be
// compiled, sets `patterns.unproven` to that reason and returns {0}.
std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns);

// Sets `missed` (patterns.h) of each pattern that begins with `^`: the groups
// that linting would take for optimizer states of parameters that the pattern
// matches.
void FindMissed(const Tree& tree, Patterns& patterns);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERN_PROOF_H_
