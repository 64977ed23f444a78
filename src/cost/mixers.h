// Finds the projections of state-space mixers and of linear attention.
#ifndef SHARDC_COST_MIXERS_H_
#define SHARDC_COST_MIXERS_H_

#include "cost/inputs.h"

namespace shardc::cost {

// Sets ParamClass::mixes, and the roles of projections out of mixers. Some
// models call their attention `mixer`; its projections get the roles of
// attention.
void FindMixers(CostInputs& work, char separator);

}  // namespace shardc::cost

#endif  // SHARDC_COST_MIXERS_H_
