// Leading dimensions that count layers or experts.
#ifndef SHARDC_SUGGEST_STACKED_DIMS_H_
#define SHARDC_SUGGEST_STACKED_DIMS_H_

#include "model/project.h"
#include "roles/layer_stacks.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

LayerStacks StacksOf(const Tree& tree, const ModelConfig* model,
                     const ScanAxis& axis);

// A copy of the tree whose groups have the shapes of one layer.
Tree WithoutLayers(const Tree& tree, const LayerStacks& stacks);

// Puts the dimensions of layers back into what was inferred without them.
// `tree` is the original one.
void RestoreLayers(const Tree& tree, const LayerStacks& stacks,
                   ModelDims& dims);

// Whether a group belongs to layers, scanned or counted in its name.
bool InLayers(const ParameterGroup& group);

// Marks the dimension of experts, or counts the tensors if each expert has its
// own.
void MarkExperts(const Tree& tree, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_STACKED_DIMS_H_
