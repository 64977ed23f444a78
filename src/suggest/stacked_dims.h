// Finds the dimensions that count layers or experts.
#ifndef SHARDC_SUGGEST_STACKED_DIMS_H_
#define SHARDC_SUGGEST_STACKED_DIMS_H_

#include "model/project.h"
#include "roles/layer_stacks.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

LayerStacks StacksOf(const Tree& tree, const ModelConfig* model,
                     const ScanAxis& axis);

// Returns a copy of the tree in which groups have the shapes of one layer.
Tree WithoutLayers(const Tree& tree, const LayerStacks& stacks);

// Adds the dimensions that count layers to `dims`, which were inferred for
// WithoutLayers(tree, stacks). `tree` still has these dimensions.
void RestoreLayers(const Tree& tree, const LayerStacks& stacks,
                   ModelDims& dims);

// Returns whether a group belongs to layers: scanned layers, or layers with a
// number in the name.
bool InLayers(const ParameterGroup& group);

// Marks the dimension of experts or, if each expert has its own tensor, counts
// these tensors.
void MarkExperts(const Tree& tree, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_STACKED_DIMS_H_
