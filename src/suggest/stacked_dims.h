// Finds the dimensions that count scanned layers or experts.
#ifndef SHARDC_SUGGEST_STACKED_DIMS_H_
#define SHARDC_SUGGEST_STACKED_DIMS_H_

#include "model/project.h"
#include "roles/layer_stacks.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

LayerStacks StacksOf(const Tree& tree, const ModelConfig* model,
                     const ScanAxis& axis);

// Returns a copy of the tree in which each group has the shape of one layer.
Tree WithoutLayers(const Tree& tree, const LayerStacks& stacks);

// Adds the dimensions that count layers to `dims`, which were inferred for the
// tree that WithoutLayers() returned. `tree` is the original tree, which has
// these dimensions.
void RestoreLayers(const Tree& tree, const LayerStacks& stacks,
                   ModelDims& dims);

// Returns whether a group belongs to numbered layers: it is in a stack of
// scanned layers, or its name contains a counter.
bool InLayers(const ParameterGroup& group);

// Finds the experts. Marks the dimension that counts them. If each expert has
// its own tensor, sets `expert_count` to the number of experts. `model` is the
// configuration, and may be null.
void MarkExperts(const Tree& tree, const ModelConfig* model, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_STACKED_DIMS_H_
