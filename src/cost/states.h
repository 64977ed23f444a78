// What training keeps beside a parameter: its gradient, and the optimizer's
// states.
#ifndef SHARDC_COST_STATES_H_
#define SHARDC_COST_STATES_H_

#include <cstdint>
#include <optional>

#include "cost/settings.h"
#include "cost/work.h"

namespace shardc::cost {

// Of one parameter on a device that holds its part; nothing where a size is
// not known or does not fit.
struct StateBytes {
  std::optional<int64_t> parameter, gradient, optimizer;
};
// Whole numbers, such as quantised weights, are not trained.
StateBytes StatesOf(const Work& work, const ParamClass& param,
                    const Settings& settings);

bool IsTrained(const ParamClass& param);
// The parts into which ZeRO cuts what the parameter's replicas hold alike.
int64_t ReplicaParts(const Work& work, const ParamClass& param);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STATES_H_
