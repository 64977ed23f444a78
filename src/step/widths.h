// The bytes of an element of each value of a step, at the dtypes of a real run.
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
  // Bytes of an element of each parameter as stored; 0: unknown.
  std::vector<int64_t> parameters = {};
  // Bytes of an element of gradients while they are reduced; nullopt: those of
  // their parameter.
  std::optional<int64_t> gradients = {};
  bool trains = false;
};

// Sets Value::bytes where it differs from that of activations. A gathered
// weight has the width of its products in training, where it is cast before,
// and its stored width in serving; an updated parameter has its stored width.
void SetWidths(Graph& graph, const ElementWidths& widths);

// Returns which values are gradients of parameters or only reshape or add up to
// one, by ValueId.
std::vector<char> FindGradientValues(const Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_WIDTHS_H_
