// Finds the arrays of a training state that anchored patterns do not match. A
// training state is a tree of the parameters and of further arrays with the
// same paths under other prefixes (optax moments: `opt_state/0/mu/PATH`). A
// pattern that is not anchored matches these arrays too. A pattern that is
// anchored at the start matches only the parameters.
#ifndef SHARDC_MATCH_STATE_NAMES_H_
#define SHARDC_MATCH_STATE_NAMES_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "match/match.h"

namespace shardc {

// Returns whether the pattern begins with `^` or `\A`, possibly inside leading
// groups, and has no alternation at the top level. Such a pattern matches only
// at the start of a name, unless a leading group has alternatives, as in
// `(^a|b)c`.
bool IsAnchoredAtStart(std::string_view pattern);

// An array of the training state that the rule of its parameter does not match.
// `parameter` and `state` are indices into the list of names.
struct MissedState {
  // Index of the anchored pattern that wins the parameter.
  uint32_t pattern = 0;
  uint32_t parameter = 0;  // the parameter
  // The array, whose name ends in the path of the parameter.
  uint32_t state = 0;
  bool operator==(const MissedState&) const = default;
};

// Returns the missed states in the order of the names. A state is a name that
// ends in the path of a parameter that an anchored pattern wins, with at most
// one part after this path. A leading `params` of the parameter is not part of
// its path. Parameters of modules are not states: layers.0.norm.weight ends in
// norm.weight, but `layers` is a module.
std::vector<MissedState> FindMissedStates(
    std::span<const std::string_view> patterns, const Matches& matches,
    std::span<const std::string_view> names, char separator);

}  // namespace shardc

#endif  // SHARDC_MATCH_STATE_NAMES_H_
