// A model's step on one device: every op of a graph over unsharded tensors, in
// plain loops. It is the reference for sharded runs. A run over complex numbers
// checks the gradients: the imaginary part of the loss at p + ihv, divided by
// h, is the derivative along v, exact to roundoff.
#ifndef SHARDC_DENSE_STEP_H_
#define SHARDC_DENSE_STEP_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/step_graph.h"

namespace shardc::dense {

// The array of a value: row-major, its dimensions in the order of the value's
// labels. Integers are stored as T too.
template <typename T>
struct StepTensor {
  std::vector<int64_t> shape = {};
  std::vector<T> data = {};
  // Only for the result of a dropout: the factor of each element, 0 or more
  // than 1. If empty, nothing is dropped.
  std::vector<double> factors = {};
};

// The arrays of all values of a graph, indexed by ValueId.
template <typename T>
using StepValues = std::vector<StepTensor<T>>;

std::vector<int64_t> ShapeOf(const step::Graph& graph, const step::Sizes& sizes,
                             step::ValueId value);

// Runs the ops of all phases up to and including `last`. `values` must hold the
// inputs and the factors of dropouts; all other values are set. T is float,
// double or std::complex<double>.
template <typename T>
void RunStep(const step::Graph& graph, const step::Sizes& sizes,
             step::Phase last, StepValues<T>& values);

// Returns the largest relative error of the graph's gradients at `values`,
// which hold the inputs. For each parameter, one derivative of the loss along a
// random direction is compared; the difference is relative to the larger of the
// two and of a hundredth of the largest derivative.
double ComplexStepError(const step::Graph& graph, const step::Sizes& sizes,
                        const StepValues<double>& values, uint64_t seed);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_STEP_H_
