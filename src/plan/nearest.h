// The rule that was probably meant for a name that no rule matched.
#ifndef SHARDC_PLAN_NEAREST_H_
#define SHARDC_PLAN_NEAREST_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "model/rules.h"

namespace shardc {

// Compares words (runs of letters, digits and `_`) of the pattern with those
// of the name, in order, the later ones weighing more: a parameter's own name
// says more than the module's. Nothing when less than half of the pattern's
// words are there; catch-alls have no words and are never near.
std::optional<size_t> NearestRule(std::span<const Rule> rules,
                                  std::string_view name);

}  // namespace shardc

#endif  // SHARDC_PLAN_NEAREST_H_
