// Interprets each parameter group as a matrix with two sides, even if its
// tensors have more than two dimensions.
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

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MATRICES_H_
