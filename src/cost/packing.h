// Finds quantised matrices in which one stored number holds several weights.
#ifndef SHARDC_COST_PACKING_H_
#define SHARDC_COST_PACKING_H_

#include <cstdint>
#include <optional>

#include "cost/inputs.h"

namespace shardc::cost {

// Sets ParamClass::packing, the number of weights in one stored number, for
// each quantised matrix. The output and input dimensions of the matrices must
// be set.
void FindPacking(CostInputs& work, std::optional<int64_t> hidden);

}  // namespace shardc::cost

#endif  // SHARDC_COST_PACKING_H_
