// The scalar functions of the dense reference. The graph of a step refers to
// them by name.
#ifndef SHARDC_DENSE_STEP_FUNCTIONS_H_
#define SHARDC_DENSE_STEP_FUNCTIONS_H_

#include <complex>
#include <string_view>

namespace shardc::dense {

// Computes the function named `fn` of x. `constant` is the number c in the
// formulas of step/functions.h, such as the cap in c tanh(x / c).
template <typename T>
using StepFunction = T (*)(std::string_view fn, const T& x, const T& constant);

// Returns the function that computes `fn`, which must be one of the names in
// step/functions.h.
template <typename T>
StepFunction<T> FindStepFunction(std::string_view fn);

extern template StepFunction<float> FindStepFunction(std::string_view);
extern template StepFunction<double> FindStepFunction(std::string_view);
extern template StepFunction<std::complex<double>> FindStepFunction(
    std::string_view);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_STEP_FUNCTIONS_H_
