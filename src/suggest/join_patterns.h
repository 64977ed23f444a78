// Makes the patterns of one suggested rule. Patterns that differ in only one
// part, such as `q_proj.weight` and `k_proj.weight`, are joined into one
// pattern.
#ifndef SHARDC_SUGGEST_JOIN_PATTERNS_H_
#define SHARDC_SUGGEST_JOIN_PATTERNS_H_

#include <cstdint>
#include <vector>

#include "suggest/name_index.h"
#include "suggest/patterns.h"
#include "suggest/suffixes.h"

namespace shardc::suggest {

// Returns patterns that together match the names of the groups in `group`.
// `suffixes`, indexed by parameter group, states which suffix of each name is
// matched. The patterns are in the order of the groups; patterns that list
// complete names come last.
std::vector<PatternOf> JoinedPatterns(const NameIndex& names,
                                      const std::vector<uint32_t>& group,
                                      const std::vector<Suffix>& suffixes);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_JOIN_PATTERNS_H_
