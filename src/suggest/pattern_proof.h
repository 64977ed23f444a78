// Runs patterns over all names of a tree.
#ifndef SHARDC_SUGGEST_PATTERN_PROOF_H_
#define SHARDC_SUGGEST_PATTERN_PROOF_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "suggest/patterns.h"

namespace shardc::suggest {

// Returns the reason why a name that `matches` patterns match is not proven:
// none, several, or a single one of another rule.
std::string MatchFault(std::string_view name, size_t matches);

// Matches the patterns with all names of the tree, and returns the groups whose
// patterns have to change: groups with a pattern that matches a name of another
// group, groups with a name that no pattern matches, and groups with a name
// that several of their own patterns match. Of each group, only the first such
// name is considered. If there is a name that is not matched exactly once, by a
// pattern of its own group, sets `patterns.unproven` to the name and the
// reason. If the patterns cannot be compiled, sets `patterns.unproven` to that
// reason and returns {0}.
std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns);

// Sets `missed` of each pattern that begins with `^` (patterns.h): the groups
// that lints take for optimizer states of parameters that the pattern matches.
void FindMissed(const Tree& tree, Patterns& patterns);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERN_PROOF_H_
