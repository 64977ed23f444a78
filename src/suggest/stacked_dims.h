// Leading dimensions that count layers or experts.
#ifndef SHARDC_SUGGEST_STACKED_DIMS_H_
#define SHARDC_SUGGEST_STACKED_DIMS_H_

#include <vector>

#include "model/project.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Marks the dimension of layers in groups whose layers are stacked for a scan:
// their names have no counter, and all groups below one path share a size.
void MarkLayers(const Tree& tree, const ModelConfig* model, ModelDims& dims);

// Marks the dimension of experts, or counts the tensors if each expert has its
// own. Needs MarkLayers.
void MarkExperts(const Tree& tree, ModelDims& dims);

// The dimensions that do not count layers.
std::vector<int> WithoutLayers(const InferredDims& inferred);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_STACKED_DIMS_H_
