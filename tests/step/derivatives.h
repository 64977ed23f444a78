// Checks the gradients of a step's graph by derivatives of its loss.
#ifndef SHARDC_TESTS_STEP_DERIVATIVES_H_
#define SHARDC_TESTS_STEP_DERIVATIVES_H_

#include <cstdint>

#include "dense/step.h"

namespace shardc::dense {

// Returns the largest relative error of the graph's gradients at the inputs in
// `values`. For each parameter, the derivative of the loss along a random
// direction is computed twice: from the gradient, and by a complex step. The
// difference is divided by the largest of three numbers: the two derivatives,
// and a hundredth of the largest derivative of all parameters. Returns infinity
// if a derivative is not finite.
double ComplexStepError(const step::Graph& graph, const step::Sizes& sizes,
                        const StepValues<double>& values, uint64_t seed);

}  // namespace shardc::dense

#endif  // SHARDC_TESTS_STEP_DERIVATIVES_H_
