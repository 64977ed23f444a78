// The functions of one number that the ops of a step apply, and the derivatives
// that a backward graph needs. In the texts of Function::meaning, x is the
// operand and c is the constant of the op.
#ifndef SHARDC_STEP_FUNCTIONS_H_
#define SHARDC_STEP_FUNCTIONS_H_

#include <array>
#include <string_view>

namespace shardc::step {

struct Function {
  std::string_view name;
  // The name of the function that is the derivative; "=" if the function is its
  // own derivative. Empty if no gradient passes through the function, because
  // its derivative is zero or because no gradient is needed where it occurs.
  std::string_view derivative;
  std::string_view meaning;
};

inline constexpr std::array<Function, 35> kFunctions = {{
    {"recip", "recip_d", "1/x"},
    {"recip_d", "recip_dd", "-1/x^2"},
    {"recip_dd", "", "2/x^3"},
    {"rsqrt", "rsqrt_d", "1/sqrt(x + c)"},
    {"rsqrt_d", "", "-1/2 (x + c)^(-3/2)"},
    {"sqrt", "sqrt_d", "sqrt(x)"},
    {"sqrt_d", "", "1/2 / sqrt(x)"},
    {"exp", "=", "e^x"},
    {"log", "recip", "ln x"},
    {"tanh", "tanh_d", "tanh x"},
    {"tanh_d", "", "1 - tanh^2 x"},
    {"cap", "cap_d", "c tanh(x / c)"},
    {"cap_d", "", "1 - tanh^2(x / c)"},
    {"sigmoid", "sigmoid_d", "1/(1 + e^-x)"},
    {"sigmoid_d", "", "s (1 - s), s = sigmoid x"},
    {"silu", "silu_d", "x sigmoid x"},
    {"silu_d", "", "s + x s (1 - s), s = sigmoid x"},
    {"swish", "swish_d", "x sigmoid(c x)"},
    {"swish_d", "", "s + c x s (1 - s), s = sigmoid(c x)"},
    {"gelu", "gelu_d", "x/2 (1 + erf(x / sqrt 2))"},
    {"gelu_d", "", "(1 + erf(x / sqrt 2))/2 + x e^(-x^2/2) / sqrt(2 pi)"},
    {"gelu_tanh", "gelu_tanh_d",
     "x/2 (1 + tanh u), u = k (x + a x^3), k ="
     " sqrt(2 / pi), a = 0.044715"},
    {"gelu_tanh_d", "", "(1 + tanh u)/2 + x/2 (1 - tanh^2 u) k (1 + 3 a x^2)"},
    {"relu", "step", "max(x, 0)"},
    {"step", "", "1 where x > 0, else 0"},
    {"relu2", "relu2_d", "max(x, 0)^2"},
    {"relu2_d", "", "2 max(x, 0)"},
    {"shift", "one", "x + c"},
    {"one", "", "1"},
    {"at_most", "below", "min(x, c)"},
    {"below", "", "1 where x < c, else 0"},
    {"clamp", "inside", "min(max(x, -c), c)"},
    {"inside", "", "1 where -c < x < c, else 0"},
    {"clip", "", "min(1, c / x)"},
    {"floor", "", "the greatest whole number that is not above x"},
}};

// The maximum of two numbers, which is the only function of two operands. It
// has no gradient.
inline constexpr std::string_view kGreater = "max2";

constexpr const Function* FindFunction(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace shardc::step

#endif  // SHARDC_STEP_FUNCTIONS_H_
