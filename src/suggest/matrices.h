// Interprets each parameter group as a matrix with two sides, even if its
// tensors have more than two dimensions.
#ifndef SHARDC_SUGGEST_MATRICES_H_
#define SHARDC_SUGGEST_MATRICES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/project.h"
#include "roles/layer_stacks.h"
#include "roles/orientation.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

struct Matrix {
  // The dimensions of the parameter that are the first and the last side; -1 if
  // the parameter is no matrix.
  int first = -1;
  int last = -1;
  // The sizes of the first and the last side. If heads and their columns are
  // two dimensions, the size of the side is their product. For packed weights,
  // the sizes are those after unpacking.
  Shape sides;
  // Whether `sides` are the sizes of the weight. If false, the weight is packed
  // and its unpacked sizes are unknown: `sides` are the stored sizes.
  bool sides_known = true;
  // True if the sides are [in, out], and false if they are [out, in]; nullopt
  // if neither the sizes nor the name show the orientation.
  std::optional<bool> in_first;

  bool valid() const { return first >= 0 && last >= 0; }
};

struct Matrices {
  std::vector<Matrix> groups;  // indexed as Tree::groups
  Widths widths;

  // Returns the model's width if it is a side of the matrix of group `k`.
  // Returns 0 if neither side is the width, or if the sides are unknown.
  int64_t WidthOf(const Tree& tree, size_t k) const;
};

// Finds the two sides of each group, and their orientation. Marks dimensions
// that are never sharded. A group with more than two dimensions that is not a
// matrix gets the role of a convolution, unless it is a position table. The
// tree must come from WithoutLayers(), and MarkExperts() must have been called.
Matrices FindMatrices(const Tree& tree, const ModelConfig* model,
                      ModelDims& dims);

// Returns whether the dtype of the group may store several weights in one
// number.
bool MayPack(const ParameterGroup& group);

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

// Links the companions of a weight (bias, scales and other vectors) to the
// weight, and finds the blocks of elements that must stay in one shard because
// they share a scale or are stored together.

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

#endif  // SHARDC_SUGGEST_MATRICES_H_
