// The shardings that values must have (constraints) or should have
// (preferences), computed before any op is lowered.
#ifndef SHARDC_STEP_PREFERENCES_H_
#define SHARDC_STEP_PREFERENCES_H_

#include <optional>
#include <string>
#include <vector>

#include "step/lower.h"
#include "step/program.h"

namespace shardc::step {

struct PreferredSharding {
  std::optional<Sharding> sharding = {};
  // The value is a parameter's gradient, or only serves to make one: axes are
  // chosen for it as for a weight.
  bool gradient = false;
  // The sharding is a constraint of the value itself, not a preference of its
  // consumer.
  bool constrained = false;
  // Axes of the value that the sharding does not use stay partial.
  bool keeps_partial = false;
};

// Returns the preference of each value, by ValueId. Axes of a constraint
// that a dimension cannot have are reported in `notes`.
std::vector<PreferredSharding> PropagatePreferred(
    const LowerRequest& request, const Axes& axes,
    std::vector<std::string>& notes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PREFERENCES_H_
