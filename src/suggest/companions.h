// Finds what belongs to a weight: its bias, its scales, and the blocks of
// elements that share a scale.
#ifndef SHARDC_SUGGEST_COMPANIONS_H_
#define SHARDC_SUGGEST_COMPANIONS_H_

#include "model/project.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Sets `weight` of each bias and scale: the group of the same module path with
// the most tensors. Needs roles that sizes have refined.
void LinkCompanions(const Tree& tree, ModelDims& dims);

// Sets `block` of each dimension: the elements that share a scale, or that the
// dtype stores together, stay in one shard. Needs LinkCompanions. If the tree
// has no scales, projections get the group size of the configuration.
void SetBlocks(const Tree& tree, const ModelConfig* model, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_COMPANIONS_H_
