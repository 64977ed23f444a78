// Finds the dimensions of parameter groups that count scanned layers (layers
// that are stacked in one tensor).
#ifndef SHARDC_LINT_ANALYSIS_SCANNED_H_
#define SHARDC_LINT_ANALYSIS_SCANNED_H_

#include <array>
#include <optional>
#include <vector>

#include "lint/analysis/facts.h"
#include "roles/layer_stacks.h"

namespace shardc {

// Finds the layer stacks of the parameter groups. Facts::stacks() keeps the
// result for all lints. If the model's configuration is known, its number of
// layers is used. LayerStacks::dims is indexed by group.
LayerStacks StacksOf(const Facts& facts);

// Returns the dimensions of a group's parameters that do not count scanned
// layers, in ascending order: 1 and 2 for [layers, in, out].
std::vector<int> UnscannedDims(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group);

// Returns the sizes of a group's shape, reordered so that the sizes that count
// scanned layers come first: [layers, in, out] for [in, layers, out]. The shape
// must be known.
Shape LayersFirst(const Facts& facts, const LayerStacks& stacks,
                  const ParameterGroup& group);

// The dimensions of a stored matrix that correspond to dimensions 0 and 1 of
// the matrix of one layer.
using MatrixDims = std::array<int, 2>;

// Returns the dimensions of a matrix of one layer, or of the matrices of
// scanned layers: 0 and 2 for [in, layers, out], 2 and 3 for [blocks, layers,
// in, out]. Returns nullopt if the parameters are not matrices.
std::optional<MatrixDims> MatrixDimsOf(const Facts& facts,
                                       const LayerStacks& stacks,
                                       const ParameterGroup& group);

// Returns the dimension of a stored vector that is dimension 0 of the vector of
// one layer: 1 of [layers, size]. Returns nullopt if the parameters are not
// vectors.
std::optional<int> VectorDimOf(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_SCANNED_H_
