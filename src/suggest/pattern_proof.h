// Runs patterns over all names of a tree.
#ifndef SHARDC_SUGGEST_PATTERN_PROOF_H_
#define SHARDC_SUGGEST_PATTERN_PROOF_H_

#include <cstdint>
#include <set>

#include "suggest/patterns.h"

namespace shardc::suggest {

// Returns the groups of the patterns that match a name of another group than
// their own, and the groups with a name that no pattern matches. Of each group,
// only the first name that is not matched as it should be is considered. Sets
// `patterns.unproven` to a name that is not matched exactly once, by a pattern
// of its own group, if there is one. If the patterns cannot be compiled, sets
// it to this reason and returns {0}.
std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns);

// Sets `missed` of each pattern that begins with `^` (patterns.h): the groups
// that lints take for optimizer states of parameters that the pattern matches.
void FindMissed(const Tree& tree, Patterns& patterns);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERN_PROOF_H_
