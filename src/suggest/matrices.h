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
  int first = -1;  // dimension of the parameter; -1 if not a matrix
  int last = -1;
  // The sizes of both sides. The columns of heads and the values of packed
  // blocks are included.
  Shape sides;
  // Whether `sides` are the sides of the weight. They are unknown for packed
  // weights whose scales do not determine them.
  bool sides_known = true;
  // Whether the sides are [in, out]; nullopt if neither sizes nor the name
  // decide.
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

// Finds outputs of attention. Such a parameter has no known role, or by its
// name the role of a second feed-forward matrix. It must be next to a query or
// a fused projection. Its first dimensions must be the query's heads and
// columns or, if it is named as an output, its shape must be the query's
// transposed:
//
//   query [1024, 16, 64], out [16, 64, 1024]
void NameOutputs(const Tree& tree, ModelDims& dims);

// Finds the two sides of each group, and their orientation. Marks dimensions
// that are never sharded, and gives groups of more than two dimensions that are
// not matrices the role of a convolution, unless they are positions. The tree
// must come from WithoutLayers, and MarkExperts must have been called.
Matrices FindMatrices(const Tree& tree, const ModelConfig* model,
                      ModelDims& dims);

// Returns whether one stored number may hold several weights of this group.
bool MayPack(const ParameterGroup& group);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MATRICES_H_
