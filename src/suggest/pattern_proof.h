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

// Returns why a name is not proven, if `matches` patterns match it: none,
// several, or a single one that is not of its own rule.
std::string MatchFault(std::string_view name, size_t matches);

// Returns the groups of the patterns that match a name of another group than
// their own, the groups with a name that no pattern matches, and the groups
// with a name that several of their own patterns match. Of each group, only the
// first name that is not matched as it should be is considered. Sets
// `patterns.unproven` to a name that is not matched exactly once, by a pattern
// of its own group, with the reason, if there is one. If the patterns cannot be
// compiled, sets it to this reason and returns {0}.
std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns);

// Sets `missed` of each pattern that begins with `^` (patterns.h): the groups
// that lints take for optimizer states of parameters that the pattern matches.
void FindMissed(const Tree& tree, Patterns& patterns);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERN_PROOF_H_
