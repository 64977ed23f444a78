// Computes the bytes of memory that a device reads and writes in a step.
#ifndef SHARDC_COST_MEMORY_TRAFFIC_H_
#define SHARDC_COST_MEMORY_TRAFFIC_H_

#include <optional>

#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"

namespace shardc::cost {

// Returns the bytes of parameters, cache, gradients and optimizer states that a
// device reads and writes in a step. Bytes that `memory` does not have are left
// out.
double MemoryTrafficOf(const CostInputs& work, const Settings& settings,
                       const Memory& memory);

// Returns the fraction of a device's experts that the tokens of a serving step
// choose, on average over layers. Returns nullopt in training, without experts,
// and if the tokens are unknown.
std::optional<double> ChosenExperts(const CostInputs& work,
                                    const Settings& settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_MEMORY_TRAFFIC_H_
