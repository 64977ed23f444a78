// Reads parameter groups as matrices with two sides.
#ifndef SHARDC_SUGGEST_MATRICES_H_
#define SHARDC_SUGGEST_MATRICES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "roles/orientation.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

struct Matrix {
  int first = -1;  // dimension of the parameter; -1 if it is no matrix
  int last = -1;
  // The sizes of both sides. If heads and their columns are two dimensions, a
  // side is their product. Packed blocks are counted after unpacking.
  Shape sides;
  // Whether `sides` are the sides of the weight. False for packed weights whose
  // scales do not determine the sides: `sides` are then the stored sizes.
  bool sides_known = true;
  // Whether the sides are [in, out] (not [out, in]); nullopt if neither sizes
  // nor the name decide.
  std::optional<bool> in_first;

  bool valid() const { return first >= 0 && last >= 0; }
};

struct Matrices {
  std::vector<Matrix> groups;  // in the order of Tree::groups
  Widths widths;

  // Returns the size of a matrix's side that is the model's width; 0 if neither
  // side is, or if the sides are unknown.
  int64_t WidthOf(const Tree& tree, size_t k) const;
};

// Sets the role of output projections of attention whose names do not show it:
// their role by name is unknown, or that of a down projection. Such a
// projection is in a block with a query or a fused projection. Its first
// dimensions are the heads and columns of the query, or its name is a word for
// an output and its shape is that of the query, transposed:
//
//   query [1024, 16, 64], out [16, 64, 1024]
void NameOutputs(const Tree& tree, ModelDims& dims);

// Finds the two sides of each group, and their orientation. Marks dimensions
// that are never sharded. A group of more than two dimensions that is not a
// matrix gets the role of a convolution, unless it has positions. The tree must
// come from WithoutLayers, and MarkExperts must have been called.
Matrices FindMatrices(const Tree& tree, const ModelConfig* model,
                      ModelDims& dims);

// Returns whether one stored number may hold several weights of this group.
bool MayPack(const ParameterGroup& group);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MATRICES_H_
