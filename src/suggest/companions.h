// Links the companions of a weight (bias, scales and other vectors) to the
// weight, and finds the blocks of elements that must stay in one shard because
// they share a scale or are stored together.
#ifndef SHARDC_SUGGEST_COMPANIONS_H_
#define SHARDC_SUGGEST_COMPANIONS_H_

#include "model/project.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Sets `weight` of each bias, scale and other vector to the index of the group
// of weights with the same module path. If several groups have this path, the
// group with the most tensors is chosen. If no group has it, `weight` stays -1.
// Must be called after the roles were corrected by the sizes of the dimensions.
void LinkCompanions(const Tree& tree, ModelDims& dims);

// Sets `block` of each dimension: the number of elements that must stay in one
// shard because they share a scale, or because the dtype stores them together.
// LinkCompanions must be called before. If the model has no scales, the input
// and the output dimension of attention and MLP matrices get the quantisation
// blocks that the configuration `model` has for their modules. A group has one
// spec, so its block keeps those of all members together. `model` may be null.
void SetBlocks(const Tree& tree, const ModelConfig* model, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_COMPANIONS_H_
