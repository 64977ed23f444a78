// Computes the bytes of an element of each value of a step from the dtypes of
// parameters, activations, gradients and the cache.
#ifndef SHARDC_STEP_WIDTHS_H_
#define SHARDC_STEP_WIDTHS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "model/dtype.h"
#include "model/step_graph.h"

namespace shardc::step {

// Returns whether parameters of this dtype are trained: floats of at least 16
// bits. Integers and narrower floats are quantised weights.
bool IsTrained(Dtype dtype);

struct ElementWidths {
  int64_t activations = 2;
  int64_t cache = 2;
  // The bytes of an element of each stored parameter; 0 if unknown.
  std::vector<int64_t> parameters = {};
  // The bytes of an element of a gradient while it is reduced; nullopt if each
  // gradient has the width of its parameter.
  std::optional<int64_t> gradients = {};
  bool trains = false;
};

// Sets Value::bytes of values whose width differs from the activations' width.
// In training, wider weights are cast to the activations' width before they are
// gathered. In serving, weights have their stored width. An updated parameter
// has its stored width.
void SetWidths(Graph& graph, const ElementWidths& widths);

// Returns for each value 1 if it is a parameter's gradient, or if it only
// becomes part of a gradient by reshapes and additions. Returns 0 for all other
// values.
std::vector<char> FindGradientValues(const Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_WIDTHS_H_
