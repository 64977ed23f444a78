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
  // The factors of the elements, 0 or 1/(1 - rate), if this is the result of a
  // dropout. If empty, nothing is dropped.
  std::vector<double> factors = {};
};

// The arrays of all values of a graph, indexed by ValueId.
template <typename T>
using StepValues = std::vector<StepTensor<T>>;

std::vector<int64_t> ShapeOf(const step::Graph& graph, const step::Sizes& sizes,
                             step::ValueId value);

// Runs the ops of all phases up to and including `last`, and sets their results
// in `values`, which must hold the inputs and the factors of dropouts. T is
// float, double or std::complex<double>.
template <typename T>
void RunStep(const step::Graph& graph, const step::Sizes& sizes,
             step::Phase last, StepValues<T>& values);

// Returns the largest relative error of the graph's gradients at `values`,
// which hold the inputs. For each parameter, the derivative of the loss along a
// random direction is computed from the gradient and by a complex step. The
// difference is divided by the larger result, or by a hundredth of the largest
// derivative of all parameters if that is more. Returns infinity if a
// derivative is not finite.
double ComplexStepError(const step::Graph& graph, const step::Sizes& sizes,
                        const StepValues<double>& values, uint64_t seed);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_STEP_H_
