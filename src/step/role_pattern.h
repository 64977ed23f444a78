// The pattern of a role: RE2 with `$i` for the layer's number and `$e` for an
// expert's.
#ifndef SHARDC_STEP_ROLE_PATTERN_H_
#define SHARDC_STEP_ROLE_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "match/match.h"

namespace shardc::step {

// A role's pattern for RE2, and which groups are the layer and the expert.
struct RolePattern {
  std::string text;
  int layer_group = 0, expert_group = 0;  // 0: none
};
RolePattern MakePattern(const std::string& text);

// Returns the pattern for the tensor that holds a role's parameter of all
// scanned layers, made from the role's own pattern: the part with the layer's
// number is left out, or replaced by a part that is no number. `separator` is
// that of the description's names. Returns an empty text if the number is no
// part of a path.
std::string ScannedPattern(const std::string& pattern, char separator);

// Returns the number of a group in a name that the pattern matches; -1 for
// group 0.
int32_t NumberIn(const Matcher& matcher, size_t pattern, std::string_view name,
                 char separator, int group);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ROLE_PATTERN_H_
