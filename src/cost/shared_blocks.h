// Counts how many times a step applies the weights of blocks that several
// layers share.
#ifndef SHARDC_COST_SHARED_BLOCKS_H_
#define SHARDC_COST_SHARED_BLOCKS_H_

#include "cost/inputs.h"

namespace shardc::cost {

// Sets ParamClass::sharing_layers of the weights of blocks of attention and MLP
// that layers share, as in Zamba. The dimensions of the weights must be known.
void FindSharedBlocks(CostInputs& work, char separator);
// Sets ParamClass::sharing_layers of `chosen`, which has some of the parameters
// of `whole`. All layers that share a block are assumed to be in the stage that
// has the block's tensors, because the checkpoint has these tensors only once.
void ShareBlocksAs(const CostInputs& whole, CostInputs& chosen);

}  // namespace shardc::cost

#endif  // SHARDC_COST_SHARED_BLOCKS_H_
