// The expected seconds of a training step, for callers that compare many steps.
#ifndef SHARDC_COST_EXPECTED_SECONDS_H_
#define SHARDC_COST_EXPECTED_SECONDS_H_

#include <optional>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"

namespace shardc::cost {

// Returns ExpectedTime::seconds; nullopt in the same cases as ExpectedTimeOf.
// Less communication never makes a step longer, so the seconds with an empty
// `communication` are a lower bound.
std::optional<double> ExpectedSecondsOf(const CostInputs& work,
                                        const Settings& settings,
                                        const Memory& memory,
                                        const Communication& communication);

// The expected seconds of a step. `tasks` are the seconds of all micro-batches.
// `after` are the seconds of the work after the micro-batches: the reduction of
// gradients over replicas and the optimizer's update.
struct StepSeconds {
  double tasks = 0, after = 0;
};
// Returns the two parts of the expected seconds. Returns nullopt in the same
// cases as ExpectedTimeOf.
std::optional<StepSeconds> ExpectedStepSecondsOf(
    const CostInputs& work, const Settings& settings, const Memory& memory,
    const Communication& communication);

}  // namespace shardc::cost

#endif  // SHARDC_COST_EXPECTED_SECONDS_H_
