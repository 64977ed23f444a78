// Makes the patterns of one rule group (suggest.h), and joins patterns that
// differ in only one part of the path.
#ifndef SHARDC_SUGGEST_JOIN_PATTERNS_H_
#define SHARDC_SUGGEST_JOIN_PATTERNS_H_

#include <cstdint>
#include <vector>

#include "suggest/name_index.h"
#include "suggest/patterns.h"
#include "suggest/suffixes.h"

namespace shardc::suggest {

// Returns patterns that together match the suffixes of these groups, in the
// order of the tree. Patterns that list complete names come last.
std::vector<PatternOf> JoinedPatterns(const NameIndex& names,
                                      const std::vector<uint32_t>& group,
                                      const std::vector<Suffix>& suffixes);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_JOIN_PATTERNS_H_
