// A model's step on one device: every op of a graph over whole tensors, in
// plain loops, to judge sharded runs by. Over complex numbers it is its own
// check: the imaginary part of the loss at p + ihv over h is the derivative
// along v, exact to roundoff.
#ifndef SHARDC_DENSE_STEP_H_
#define SHARDC_DENSE_STEP_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/step_graph.h"

namespace shardc::dense {

// Dimensions in the order of the value's labels; row-major. Whole numbers are
// kept as numbers too.
template <typename T>
struct StepTensor {
  std::vector<int64_t> shape = {};
  std::vector<T> data = {};
  // Of a dropout's result: by what each element is multiplied, 0 or more than
  // 1; none: it keeps all.
  std::vector<double> factors = {};
};

// By ValueId.
template <typename T>
using StepValues = std::vector<StepTensor<T>>;

std::vector<int64_t> ShapeOf(const step::Graph& graph, const step::Sizes& sizes,
                             step::ValueId value);

// `values` holds what inputs are, and what dropouts keep; all others are set.
// Only ops of phases up to `last` run. T is float, double or
// std::complex<double>.
template <typename T>
void RunStep(const step::Graph& graph, const step::Sizes& sizes,
             step::Phase last, StepValues<T>& values);

// How far the graph's gradients are from the derivatives of its loss at
// `values` (inputs set): of each parameter one derivative along a direction
// that `seed` draws, the greatest difference relative to the greater of the two
// and of a hundredth of the largest.
double ComplexStepError(const step::Graph& graph, const step::Sizes& sizes,
                        const StepValues<double>& values, uint64_t seed);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_STEP_H_
