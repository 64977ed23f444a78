// The pattern of a role: RE2 syntax, with `$i` for the number of the layer and
// `$e` for the number of the expert.
#ifndef SHARDC_STEP_ROLE_PATTERN_H_
#define SHARDC_STEP_ROLE_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "match/match.h"

namespace shardc::step {

// A role's pattern in RE2 syntax, and the numbers of its groups that match the
// layer and the expert.
struct RolePattern {
  std::string text;
  // The number of the group; 0 if there is no such group.
  int layer_group = 0, expert_group = 0;
};
RolePattern MakePattern(const std::string& text);

// Returns the pattern for the tensor that holds a role's parameters of all
// scanned layers. In the name of this tensor, the layer's number is absent or
// replaced by a word: layers/q or layers/block/q instead of layers/7/q.
// `separator` separates the parts of the names in the description. Returns an
// empty text if no separator follows the layer's number in `pattern`.
std::string ScannedPattern(const std::string& pattern, char separator);

// Returns the number that a group of the pattern matches in a name. Returns -1
// for group 0, and INT32_MAX for a number that does not fit in 32 bits.
int32_t NumberIn(const Matcher& matcher, size_t pattern, std::string_view name,
                 char separator, int group);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ROLE_PATTERN_H_
