// Computes, before any op is lowered, the shardings that values must have
// (constraints) and the shardings that they should have (preferences).
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
  // True if the sharding is a constraint of the value itself; false if it is a
  // preference of the value's consumer.
  bool constrained = false;
  // Whether the value may stay partial over axes that the sharding does not
  // use.
  bool keeps_partial = false;
};

// Returns the preferred sharding of each value, indexed by ValueId. A
// constraint may name an axis that cannot shard the dimension. A message about
// each such axis is appended to `notes` (Program::notes).
std::vector<PreferredSharding> PropagatePreferred(
    const LowerRequest& request, const Axes& axes,
    std::vector<std::string>& notes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PREFERENCES_H_
