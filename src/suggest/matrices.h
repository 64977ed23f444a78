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

// Makes a parameter the output of attention if it is unknown, or a second
// matrix of a feed-forward block by its name, and stands next to a query with
// the query's heads and their columns in front, or is called an output and has
// the query's transposed shape:
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
