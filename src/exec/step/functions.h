// Finds a scalar function of a step's graph, such as `silu`, by its name.
#ifndef SHARDC_EXEC_STEP_FUNCTIONS_H_
#define SHARDC_EXEC_STEP_FUNCTIONS_H_

#include <string_view>

namespace shardc::exec {

// A function whose arguments are the operands x[0], x[1], ... and the op's
// constant. FindStepFunction returns null if no function has the name.
template <class T>
using StepFunction = T (*)(const T* x, T constant);
template <class T>
StepFunction<T> FindStepFunction(std::string_view name);

extern template StepFunction<float> FindStepFunction(std::string_view name);
extern template StepFunction<double> FindStepFunction(std::string_view name);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_FUNCTIONS_H_
