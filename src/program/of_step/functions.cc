// The functions of a step and their derivatives as maps. For example, silu is
// the product of x and its logistic function:
//
//   s = map logistic(x); silu = map mul(x, s)
#include "program/of_step/functions.h"

#include <cmath>
#include <numbers>

namespace shardc::program {
namespace {

// Numbers that maps compute, so that formulas are written as they are read.
struct Term {
  ProgramWriter* write = nullptr;
  ValueId id = 0;

  Term Of(std::string_view fn) const { return {write, write->Map(fn, {id})}; }
  Term With(std::string_view fn, Term other) const {
    return {write, write->Map(fn, {id, other.id})};
  }
  Term With(std::string_view fn, double number) const {
    return With(fn, {write, write->Number(number, id)});
  }
  // The function of a number and the term.
  Term After(double number, std::string_view fn) const {
    return Term{write, write->Number(number, id)}.With(fn, *this);
  }
  // 1 where the comparison holds, else 0.
  Term Test(std::string_view fn, double number) const {
    const ValueId holds = write->Test(fn, {id, write->Number(number, id)});
    return {write, write->Converted(holds, write->DtypeOf(id))};
  }

  Term operator+(Term other) const { return With("add", other); }
  Term operator*(Term other) const { return With("mul", other); }
  Term operator+(double number) const { return With("add", number); }
  Term operator*(double number) const { return With("mul", number); }
};

Term OneMinus(Term x) { return x.After(1, "sub"); }

// x sigmoid(c x) and its derivative, which are silu for c = 1.
Term Swish(Term x, double c, bool derivative) {
  const Term s = (c == 1 ? x : x * c).Of("logistic");
  if (!derivative) return x * s;
  return s + (c == 1 ? x : x * c) * s * OneMinus(s);
}

Term Gelu(Term x, bool derivative) {
  const Term phi = ((x * (1 / std::numbers::sqrt2)).Of("erf") + 1) * 0.5;
  if (!derivative) return x * phi;
  const Term density =
      (x * x * -0.5).Of("exp") * (1 / std::sqrt(2 * std::numbers::pi));
  return phi + x * density;
}

Term GeluTanh(Term x, bool derivative) {
  const double k = std::sqrt(2 / std::numbers::pi);
  constexpr double kCube = 0.044715;
  const Term u = ((x + x * x * x * kCube) * k).Of("tanh");
  const Term half = (u + 1) * 0.5;
  if (!derivative) return x * half;
  return half + x * OneMinus(u * u) * (x * x * (3 * kCube) + 1) * (k / 2);
}

std::optional<Term> Written(std::string_view fn, Term x, double c) {
  if (fn == "recip") return x.After(1, "div");
  if (fn == "recip_d") return (x * x).After(-1, "div");
  if (fn == "recip_dd") return (x * x * x).After(2, "div");
  if (fn == "rsqrt") return (x + c).Of("rsqrt");
  if (fn == "rsqrt_d") {
    const Term y = x + c;
    return y.Of("rsqrt").With("div", y) * -0.5;
  }
  if (fn == "sqrt_d") return x.Of("rsqrt") * 0.5;
  if (fn == "sqrt" || fn == "exp" || fn == "log" || fn == "tanh" ||
      fn == "floor") {
    return x.Of(fn);
  }
  if (fn == "tanh_d") {
    const Term t = x.Of("tanh");
    return OneMinus(t * t);
  }
  if (fn == "cap") return (x * (1 / c)).Of("tanh") * c;
  if (fn == "cap_d") {
    const Term t = (x * (1 / c)).Of("tanh");
    return OneMinus(t * t);
  }
  if (fn == "sigmoid") return x.Of("logistic");
  if (fn == "sigmoid_d") {
    const Term s = x.Of("logistic");
    return s * OneMinus(s);
  }
  if (fn == "silu" || fn == "silu_d") return Swish(x, 1, fn == "silu_d");
  if (fn == "swish" || fn == "swish_d") return Swish(x, c, fn == "swish_d");
  if (fn == "gelu" || fn == "gelu_d") return Gelu(x, fn == "gelu_d");
  if (fn == "gelu_tanh" || fn == "gelu_tanh_d") {
    return GeluTanh(x, fn == "gelu_tanh_d");
  }
  if (fn == "relu") return x.With("max", 0);
  if (fn == "step") return x.Test("gt", 0);
  if (fn == "relu2") {
    const Term r = x.With("max", 0);
    return r * r;
  }
  if (fn == "relu2_d") return x.With("max", 0) * 2;
  if (fn == "shift") return x + c;
  if (fn == "one") return Term{x.write, x.write->Number(1, x.id)};
  if (fn == "at_most") return x.With("min", c);
  if (fn == "below") return x.Test("lt", c);
  if (fn == "clamp") return x.With("max", -c).With("min", c);
  if (fn == "inside") return x.Of("abs").Test("lt", c);
  if (fn == "clip") return x.After(c, "div").With("min", 1);
  return std::nullopt;
}

}  // namespace

std::optional<ValueId> WriteFunction(ProgramWriter& write, std::string_view fn,
                                     ValueId x, double constant) {
  const auto out = Written(fn, {&write, x}, constant);
  return out ? std::optional(out->id) : std::nullopt;
}

}  // namespace shardc::program
