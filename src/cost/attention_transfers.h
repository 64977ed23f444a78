// Computes the bytes that the attention operation sends in all layers of a
// step.
#ifndef SHARDC_COST_ATTENTION_TRANSFERS_H_
#define SHARDC_COST_ATTENTION_TRANSFERS_H_

#include "cost/communication.h"

namespace shardc::cost {

// Appends the transfers of the attention operation in all layers and
// micro-batches to `out`. If their bytes are unknown, appends the reason to
// Communication::unknown.
void AddAttention(const CostInputs& work, const Settings& settings,
                  Communication& out);

}  // namespace shardc::cost

#endif  // SHARDC_COST_ATTENTION_TRANSFERS_H_
