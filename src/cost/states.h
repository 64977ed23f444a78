// The bytes that training keeps for a parameter: its gradient and optimizer
// states.
#ifndef SHARDC_COST_STATES_H_
#define SHARDC_COST_STATES_H_

#include <cstdint>
#include <optional>

#include "cost/inputs.h"
#include "cost/settings.h"

namespace shardc::cost {

// The bytes that a device holds for its shard of one parameter. An entry is
// nullopt if a size is unknown or if the bytes overflow 64 bits.
struct StateBytes {
  std::optional<int64_t> parameter, gradient, optimizer;
};
// Returns the bytes of a parameter, its gradient and its optimizer states. The
// bytes of the gradient and of the states are 0 in serving, and for parameters
// that are not trained, such as the integers of quantised weights.
StateBytes StatesOf(const CostInputs& work, const ParamClass& param,
                    const Settings& settings);

bool IsTrained(const ParamClass& param);
// Returns the number of replicas of the parameter, over which ZeRO divides its
// states.
int64_t ReplicaParts(const CostInputs& work, const ParamClass& param);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STATES_H_
