// Finds quantised matrices in which one stored number holds several weights.
#ifndef SHARDC_COST_PACKING_H_
#define SHARDC_COST_PACKING_H_

#include <cstdint>
#include <optional>

#include "cost/inputs.h"

namespace shardc::cost {

// Sets how many weights one number of each quantised matrix holds. The matrices
// must have their output and input dimensions.
void FindPacking(CostInputs& work, std::optional<int64_t> hidden);

}  // namespace shardc::cost

#endif  // SHARDC_COST_PACKING_H_
