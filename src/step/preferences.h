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
  // Whether the value is a parameter's gradient, or is only used to compute
  // one. Axes are then chosen for it as for a weight.
  bool gradient = false;
  // Whether the sharding is a constraint of the value itself, and not a
  // preference of its consumer.
  bool constrained = false;
  // Whether the value stays partial over axes that the sharding does not use.
  bool keeps_partial = false;
};

// Returns the preferred sharding of each value, by ValueId. Appends to `notes`
// a message about each axis that a constraint names but that cannot shard the
// dimension (Program::notes).
std::vector<PreferredSharding> PropagatePreferred(
    const LowerRequest& request, const Axes& axes,
    std::vector<std::string>& notes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PREFERENCES_H_
