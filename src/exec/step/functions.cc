// Defines the table of the scalar functions that a step may apply to each
// element, for float32 and float64. The function `f_d` is the derivative of
// `f`, and `f_dd` is the second derivative. For example:
//
//   silu 2   ->  1.7616
#include "exec/step/functions.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace shardc::exec {
namespace {

template <class T>
struct Row {
  std::string_view name;
  StepFunction<T> function;
};

template <class T>
T Sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}
template <class T>
T SwishSlope(T x, T c) {
  const T s = Sigmoid(c * x);
  return s + c * x * s * (T{1} - s);
}
template <class T>
constexpr T kRootTwoOverPi = static_cast<T>(0.79788456080286535588);
template <class T>
constexpr T kCubic = static_cast<T>(0.044715);
template <class T>
T GeluArgument(T x) {
  return kRootTwoOverPi<T> * (x + kCubic<T> * x * x * x);
}
template <class T>
T GeluTanhSlope(T x) {
  const T t = std::tanh(GeluArgument(x));
  return (T{1} + t) / T{2} + x / T{2} * (T{1} - t * t) * kRootTwoOverPi<T> *
                                 (T{1} + T{3} * kCubic<T> * x * x);
}
template <class T>
T GeluSlope(T x) {
  constexpr T kRootHalf = static_cast<T>(0.70710678118654752440);
  constexpr T kRootTwoPi = static_cast<T>(2.50662827463100050242);
  return (T{1} + std::erf(x * kRootHalf)) / T{2} +
         x * std::exp(-x * x / T{2}) / kRootTwoPi;
}
template <class T>
T Gelu(T x) {
  constexpr T kRootHalf = static_cast<T>(0.70710678118654752440);
  return x / T{2} * (T{1} + std::erf(x * kRootHalf));
}
template <class T>
T Square(T x) {
  return x * x;
}

template <class T>
constexpr Row<T> kRows[] = {
    {"recip", [](const T* x, T) { return T{1} / *x; }},
    {"recip_d", [](const T* x, T) { return -T{1} / (*x * *x); }},
    {"recip_dd", [](const T* x, T) { return T{2} / (*x * *x * *x); }},
    {"rsqrt", [](const T* x, T c) { return T{1} / std::sqrt(*x + c); }},
    {"rsqrt_d",
     [](const T* x, T c) { return T(-0.5) / ((*x + c) * std::sqrt(*x + c)); }},
    {"sqrt", [](const T* x, T) { return T(std::sqrt(*x)); }},
    {"sqrt_d", [](const T* x, T) { return T(0.5) / std::sqrt(*x); }},
    {"exp", [](const T* x, T) { return T(std::exp(*x)); }},
    {"log", [](const T* x, T) { return T(std::log(*x)); }},
    {"tanh", [](const T* x, T) { return T(std::tanh(*x)); }},
    {"tanh_d", [](const T* x, T) { return T{1} - Square(T(std::tanh(*x))); }},
    {"cap", [](const T* x, T c) { return c * T(std::tanh(*x / c)); }},
    {"cap_d",
     [](const T* x, T c) { return T{1} - Square(T(std::tanh(*x / c))); }},
    {"sigmoid", [](const T* x, T) { return Sigmoid(*x); }},
    {"sigmoid_d",
     [](const T* x, T) { return Sigmoid(*x) * (T{1} - Sigmoid(*x)); }},
    {"silu", [](const T* x, T) { return *x * Sigmoid(*x); }},
    {"silu_d", [](const T* x, T) { return SwishSlope(*x, T{1}); }},
    {"swish", [](const T* x, T c) { return *x * Sigmoid(c * *x); }},
    {"swish_d", [](const T* x, T c) { return SwishSlope(*x, c); }},
    {"gelu", [](const T* x, T) { return Gelu(*x); }},
    {"gelu_d", [](const T* x, T) { return GeluSlope(*x); }},
    {"gelu_tanh",
     [](const T* x, T) {
       return *x / T{2} * (T{1} + std::tanh(GeluArgument(*x)));
     }},
    {"gelu_tanh_d", [](const T* x, T) { return GeluTanhSlope(*x); }},
    {"relu", [](const T* x, T) { return std::max(*x, T{0}); }},
    {"step", [](const T* x, T) { return *x > T{0} ? T{1} : T{0}; }},
    {"relu2", [](const T* x, T) { return Square(std::max(*x, T{0})); }},
    {"relu2_d", [](const T* x, T) { return T{2} * std::max(*x, T{0}); }},
    {"shift", [](const T* x, T c) { return *x + c; }},
    {"one", [](const T*, T) { return T{1}; }},
    {"at_most", [](const T* x, T c) { return std::min(*x, c); }},
    {"below", [](const T* x, T c) { return *x < c ? T{1} : T{0}; }},
    {"clamp", [](const T* x, T c) { return std::clamp(*x, -c, c); }},
    {"inside", [](const T* x, T c) { return *x > -c && *x < c ? T{1} : T{0}; }},
    {"clip", [](const T* x, T c) { return std::min(T{1}, c / *x); }},
    {"floor", [](const T* x, T) { return T(std::floor(*x)); }},
    {"max2", [](const T* x, T) { return std::max(x[0], x[1]); }},
};

}  // namespace

template <class T>
StepFunction<T> FindStepFunction(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kRows<T>), std::end(kRows<T>),
                   [&](const Row<T>& row) { return row.name == name; });
  return found == std::end(kRows<T>) ? nullptr : found->function;
}

template StepFunction<float> FindStepFunction(std::string_view name);
template StepFunction<double> FindStepFunction(std::string_view name);

}  // namespace shardc::exec
