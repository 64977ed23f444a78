// Finds the companions of a weight: its bias, its scales, and the blocks of
// elements that share a scale.
#ifndef SHARDC_SUGGEST_COMPANIONS_H_
#define SHARDC_SUGGEST_COMPANIONS_H_

#include "model/project.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Sets `weight` of each bias, scale and other vector to the group with the same
// module path; if there are several, to the one with the most tensors. The
// roles must already be refined by sizes.
void LinkCompanions(const Tree& tree, ModelDims& dims);

// Sets `block` of each dimension: the number of elements that must stay in one
// shard because they share a scale, or because the dtype stores them together.
// LinkCompanions must be called before. If the tree has no scales, projections
// get the group size of the configuration.
void SetBlocks(const Tree& tree, const ModelConfig* model, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_COMPANIONS_H_
