// Parameter groups as matrices of two sides.
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
  int first = -1;  // dimensions of the parameter; -1: it is no matrix
  int last = -1;
  // The sizes of both, with the columns of heads and the values of packed
  // blocks multiplied in.
  Shape sides;
  // Whether the sides are those of the weight: false for packed weights whose
  // scales do not determine them.
  bool sides_known = true;
  // Whether the sides are [in, out]; empty if neither sizes nor the name
  // decide.
  std::optional<bool> in_first;

  bool valid() const { return first >= 0 && last >= 0; }
};

struct Matrices {
  std::vector<Matrix> groups;  // as in the tree
  Widths widths;

  // The model's width that one side of a matrix has; 0 if neither has it.
  int64_t WidthOf(const Tree& tree, size_t k) const;
};

// Gives a parameter the role of attention's output. It must have no known role,
// or have the role of a second feed-forward matrix by its name. It must also be
// next to a query, and either have the query's heads and columns in front, or
// be called an output and have the query's transposed shape:
//
//   query [1024, 16, 64], out [16, 64, 1024]
void NameOutputs(const Tree& tree, ModelDims& dims);

// Finds the two sides of each group, and their orientation. Marks dimensions
// that are never sharded, and gives groups that are no matrices the role of a
// convolution. The tree is one without layers. Needs MarkExperts.
Matrices FindMatrices(const Tree& tree, const ModelConfig* model,
                      ModelDims& dims);

// Whether one stored number may hold several weights of this group.
bool MayPack(const ParameterGroup& group);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MATRICES_H_
