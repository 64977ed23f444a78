// Runs a model's step on one device: every op of a graph over unsharded
// tensors, in plain loops. It is the reference for sharded runs.
//
// A run over complex numbers checks the gradients by the complex-step method.
// For parameters p, a direction v and a tiny number h, the derivative of the
// loss along v is the imaginary part of loss(p + ihv), divided by h. It is
// exact to roundoff.
#ifndef SHARDC_DENSE_STEP_H_
#define SHARDC_DENSE_STEP_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/step_graph.h"

namespace shardc::dense {

// The row-major array of one value of a step's graph. Its dimensions are in the
// order of the value's dimension labels. Integers are also stored as T.
template <typename T>
struct StepTensor {
  std::vector<int64_t> shape = {};
  std::vector<T> data = {};
  // For the result of a dropout: 0 for each dropped element and 1/(1 - rate)
  // for each other element. If empty, no element is dropped.
  std::vector<double> factors = {};
};

// The arrays of all values of a graph, indexed by ValueId.
template <typename T>
using StepValues = std::vector<StepTensor<T>>;

std::vector<int64_t> ShapeOf(const step::Graph& graph, const step::Sizes& sizes,
                             step::ValueId value);

// Runs the ops of the forward pass, the backward pass and the optimizer, up to
// and including `last`. Stores the results in `values`. The caller must have
// stored the arrays of the inputs in `values`, and StepTensor::factors of the
// results of dropouts. T is float, double or std::complex<double>.
template <typename T>
void RunStep(const step::Graph& graph, const step::Sizes& sizes,
             step::Phase last, StepValues<T>& values);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_STEP_H_
