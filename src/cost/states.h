// The bytes that training keeps besides a parameter: its gradient and optimizer
// states.
#ifndef SHARDC_COST_STATES_H_
#define SHARDC_COST_STATES_H_

#include <cstdint>
#include <optional>

#include "cost/inputs.h"
#include "cost/settings.h"

namespace shardc::cost {

// For one parameter, on a device that holds its part; nullopt if a size is
// unknown or does not fit 64 bits.
struct StateBytes {
  std::optional<int64_t> parameter, gradient, optimizer;
};
// Integer parameters, such as quantised weights, are not trained.
StateBytes StatesOf(const CostInputs& work, const ParamClass& param,
                    const Settings& settings);

bool IsTrained(const ParamClass& param);
// The number of parts into which ZeRO divides what the parameter's replicas
// hold.
int64_t ReplicaParts(const CostInputs& work, const ParamClass& param);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STATES_H_
