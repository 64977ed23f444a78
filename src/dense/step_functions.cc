// The scalar functions of a step and their derivatives, over float, double and
// complex numbers. step/functions.h lists which function is the derivative of
// which: for example, `silu_d` is the derivative of `silu`. Functions with a
// kink compare only the real parts of complex numbers. For example:
//
//   relu at 2 + 1e-30i is 2 + 1e-30i, at -1 + 1e-30i it is 0
#include "dense/step_functions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "dense/step_context.h"

namespace shardc::dense {
namespace {

constexpr double kPi = 3.14159265358979323846;

template <typename T>
T Exp(const T& x) {
  // The result is 0 at -inf, whatever the imaginary part is.
  if (Real(x) == -std::numeric_limits<typename RealOf<T>::Type>::infinity()) {
    return T(0);
  }
  return std::exp(x);
}

// Computes erf of a complex number to first order in the imaginary part. The
// first order is enough for derivatives by a complex step.
template <typename T>
T Erf(const T& x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::erf(x);
  } else {
    const double at = x.real();
    return {std::erf(at), x.imag() * 2 / std::sqrt(kPi) * std::exp(-at * at)};
  }
}

template <typename T>
T Sigmoid(const T& x) {
  return T(1) / (T(1) + Exp(-x));
}

// Computes the smooth function named `fn` of x. `c` is the constant of the
// function, such as the cap in c tanh(x / c).
template <typename T>
T SmoothFunction(std::string_view fn, const T& x, const T& c) {
  if (fn == "recip") return T(1) / x;
  if (fn == "recip_d") return T(-1) / (x * x);
  if (fn == "recip_dd") return T(2) / (x * x * x);
  if (fn == "rsqrt") return T(1) / std::sqrt(x + c);
  if (fn == "rsqrt_d") {
    return T(-0.5) / ((x + c) * std::sqrt(x + c));
  }
  if (fn == "sqrt") return std::sqrt(x);
  if (fn == "sqrt_d") return T(0.5) / std::sqrt(x);
  if (fn == "exp") return Exp(x);
  if (fn == "log") return std::log(x);
  if (fn == "tanh") return std::tanh(x);
  if (fn == "tanh_d") return T(1) - std::tanh(x) * std::tanh(x);
  if (fn == "cap") return c * std::tanh(x / c);
  if (fn == "cap_d") return T(1) - std::tanh(x / c) * std::tanh(x / c);
  if (fn == "sigmoid") return Sigmoid(x);
  if (fn == "shift") return x + c;
  if (fn == "one") return T(1);
  const bool scaled = fn == "swish" || fn == "swish_d";
  const T k = scaled ? c : T(1);
  const T s = Sigmoid(k * x);
  if (fn == "sigmoid_d") return s * (T(1) - s);
  if (fn == "silu" || fn == "swish") return x * s;
  return s + k * x * s * (T(1) - s);  // the functions silu_d and swish_d
}

template <typename T>
T Gelu(std::string_view fn, const T& x) {
  const T root = T(std::sqrt(2.0));
  if (fn == "gelu") return x / T(2) * (T(1) + Erf(x / root));
  if (fn == "gelu_d") {
    return (T(1) + Erf(x / root)) / T(2) +
           x * std::exp(-x * x / T(2)) / T(std::sqrt(2 * kPi));
  }
  const T k = T(std::sqrt(2 / kPi)), a = T(0.044715);
  const T u = std::tanh(k * (x + a * x * x * x));
  if (fn == "gelu_tanh") return x / T(2) * (T(1) + u);
  return (T(1) + u) / T(2) +
         x / T(2) * (T(1) - u * u) * k * (T(1) + T(3) * a * x * x);
}

// Computes the function named `fn` of x, which has a kink or a step. `c` is the
// constant of the function, such as the limit to which `clamp` limits |x|.
template <typename T>
T PiecewiseFunction(std::string_view fn, const T& x, const T& c) {
  const auto at = Real(x), limit = Real(c);
  if (fn == "relu") return at > 0 ? x : T(0);
  if (fn == "step") return T(at > 0 ? 1 : 0);
  if (fn == "relu2") return at > 0 ? x * x : T(0);
  if (fn == "relu2_d") return at > 0 ? T(2) * x : T(0);
  if (fn == "at_most") return at < limit ? x : c;
  if (fn == "below") return T(at < limit ? 1 : 0);
  if (fn == "clamp") return at < -limit ? -c : at > limit ? c : x;
  if (fn == "inside") return T(-limit < at && at < limit ? 1 : 0);
  if (fn == "floor") return T(std::floor(at));
  return limit < at ? c / x : T(1);  // the function clip
}

constexpr std::array<std::string_view, 10> kPiecewise = {
    "relu",  "step",  "relu2",  "relu2_d", "at_most",
    "below", "clamp", "inside", "clip",    "floor"};

}  // namespace

template <typename T>
StepFunction<T> FindStepFunction(std::string_view fn) {
  if (std::find(kPiecewise.begin(), kPiecewise.end(), fn) != kPiecewise.end()) {
    return PiecewiseFunction<T>;
  }
  if (fn.starts_with("gelu")) {
    return [](std::string_view f, const T& x, const T&) { return Gelu(f, x); };
  }
  return SmoothFunction<T>;
}

template StepFunction<float> FindStepFunction(std::string_view);
template StepFunction<double> FindStepFunction(std::string_view);
template StepFunction<std::complex<double>> FindStepFunction(std::string_view);

}  // namespace shardc::dense
