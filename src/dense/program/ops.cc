// The ops of a traced program on arrays of doubles. Each op is written from its
// definition: a loop over positions of the result, which reads the operands at
// the positions that the definition names. For example, element [i, j] of
// `transpose` with perm [1, 0] is element [j, i] of the operand.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>

#include "dense/program/run.h"
#include "program/read.h"
#include "source/size.h"

namespace shardc::dense {
namespace {

using program::Attr;
using program::HasDim;
using program::IndexMode;
using program::Op;
using program::OpKind;
using program::Program;
using Position = std::vector<int64_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Calls `visit` with each position of a shape, in row-major order.
template <class Visit>
void ForPositions(const Position& shape, const Visit& visit) {
  Position at(shape.size(), 0);
  if (std::ranges::find(shape, 0) != shape.end()) return;
  while (true) {
    visit(at);
    size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

size_t OffsetOf(const Array& x, const Position& at) {
  int64_t out = 0;
  for (size_t d = 0; d < at.size(); ++d) out = out * x.shape[d] + at[d];
  return AsIndex(out);
}

double ElementAt(const Array& x, const Position& at) {
  return x.data[OffsetOf(x, at)];
}

// ---- functions of single elements

bool IsInteger(std::optional<Dtype> dtype) {
  return dtype && program::IntegerBits(*dtype) != 0;
}

// Returns a number as its dtype stores it: integers wrap, and a boolean is 0 or
// 1.
double Stored(double x, std::optional<Dtype> dtype) {
  if (dtype == Dtype::kBool) return x != 0 ? 1 : 0;
  if (!IsInteger(dtype)) return x;
  const int bits = program::IntegerBits(*dtype);
  const double range = std::ldexp(1.0, std::abs(bits));
  if (std::isnan(x)) return 0;
  if (std::isinf(x)) x = x > 0 ? range / 2 - 1 : -range / 2;
  x = std::trunc(x);
  double wrapped = x - std::floor(x / range) * range;
  if (bits > 0 && wrapped >= range / 2) wrapped -= range;
  return wrapped;
}

// The unsigned bits of an integer, and a product of integers modulo 2^64.
uint64_t Bits(double x) {
  return static_cast<uint64_t>(static_cast<int64_t>(x));
}

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }
double SignOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

using Unary = double (*)(double);
const std::map<std::string_view, Unary>& Unaries() {
  static const std::map<std::string_view, Unary> kTable = {
      {"abs", [](double x) { return std::abs(x); }},
      {"acos", [](double x) { return std::acos(x); }},
      {"acosh", [](double x) { return std::acosh(x); }},
      {"asin", [](double x) { return std::asin(x); }},
      {"asinh", [](double x) { return std::asinh(x); }},
      {"atan", [](double x) { return std::atan(x); }},
      {"atanh", [](double x) { return std::atanh(x); }},
      {"cbrt", [](double x) { return std::cbrt(x); }},
      {"ceil", [](double x) { return std::ceil(x); }},
      {"convert", [](double x) { return x; }},
      {"cos", [](double x) { return std::cos(x); }},
      {"cosh", [](double x) { return std::cosh(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"erfc", [](double x) { return std::erfc(x); }},
      {"exp", [](double x) { return std::exp(x); }},
      {"exp2", [](double x) { return std::exp2(x); }},
      {"expm1", [](double x) { return std::expm1(x); }},
      {"floor", [](double x) { return std::floor(x); }},
      {"is_finite", [](double x) { return std::isfinite(x) ? 1.0 : 0.0; }},
      {"lgamma", [](double x) { return std::lgamma(x); }},
      {"log", [](double x) { return std::log(x); }},
      {"log1p", [](double x) { return std::log1p(x); }},
      {"logistic", Logistic},
      {"neg", [](double x) { return -x; }},
      {"reduce_precision", [](double x) { return x; }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"sign", SignOf},
      {"sin", [](double x) { return std::sin(x); }},
      {"sinh", [](double x) { return std::sinh(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"square", [](double x) { return x * x; }},
      {"tan", [](double x) { return std::tan(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
  };
  return kTable;
}

double Maximum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
}
double Minimum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
}
double Truth(bool x) { return x ? 1 : 0; }

using Binary = double (*)(double, double);
const std::map<std::string_view, Binary>& Binaries() {
  static const std::map<std::string_view, Binary> kTable = {
      {"add", [](double a, double b) { return a + b; }},
      {"sub", [](double a, double b) { return a - b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"div", [](double a, double b) { return a / b; }},
      {"rem", [](double a, double b) { return std::fmod(a, b); }},
      {"max", Maximum},
      {"min", Minimum},
      {"pow", [](double a, double b) { return std::pow(a, b); }},
      {"atan2", [](double a, double b) { return std::atan2(a, b); }},
      {"eq", [](double a, double b) { return Truth(a == b); }},
      {"ne", [](double a, double b) { return Truth(a != b); }},
      {"lt", [](double a, double b) { return Truth(a < b); }},
      {"le", [](double a, double b) { return Truth(a <= b); }},
      {"gt", [](double a, double b) { return Truth(a > b); }},
      {"ge", [](double a, double b) { return Truth(a >= b); }},
      {"eq_to", [](double a, double b) { return Truth(a == b); }},
      {"le_to", [](double a, double b) { return Truth(a <= b); }},
      {"lt_to", [](double a, double b) { return Truth(a < b); }},
  };
  return kTable;
}

// Functions of integers whose results a double would round or that work on
// bits.
double OfIntegers(std::string_view fn, double a, double b, Dtype dtype) {
  const int bits = std::abs(program::IntegerBits(dtype));
  const uint64_t x = Bits(a);
  const uint64_t y = Bits(b);
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  uint64_t out = 0;
  if (fn == "mul") {
    // Without the high half of the product, which wraps anyway.
    uint64_t sum = 0;
    for (int i = 0; i < 64; ++i) {
      if ((y >> i & 1) != 0) __builtin_add_overflow(sum, x << i, &sum);
    }
    out = sum;
  } else if (fn == "and") {
    out = x & y;
  } else if (fn == "or") {
    out = x | y;
  } else if (fn == "xor") {
    out = x ^ y;
  } else if (fn == "shift_left") {
    out = y < static_cast<uint64_t>(bits) ? x << y : 0;
  } else if (fn == "shift_right_logical") {
    out = y < static_cast<uint64_t>(bits) ? (x & mask) >> y : 0;
  } else if (fn == "shift_right_arithmetic") {
    return std::floor(std::ldexp(a, -static_cast<int>(std::min(b, 63.0))));
  } else if (fn == "div") {
    return b == 0 ? -1 : std::trunc(a / b);
  } else {
    return b == 0 ? a : std::fmod(a, b);
  }
  return static_cast<double>(out & mask);
}

double PowerOf(double x, int64_t exponent) {
  double out = 1;
  for (int64_t i = 0; i < std::abs(exponent); ++i) out *= x;
  return exponent < 0 ? 1 / out : out;
}

double Element(const Program& program, const Op& op,
               const std::vector<double>& x) {
  const std::string& fn = op.word;
  const auto dtype = program.values[op.in[0]].dtype;
  if (fn == "select") {
    const auto last = static_cast<double>(x.size() - 2);
    return x[AsIndex(static_cast<int64_t>(std::clamp(x[0], 0.0, last))) + 1];
  }
  if (fn == "clamp") return Minimum(Maximum(x[0], x[1]), x[2]);
  if (fn == "integer_pow") return PowerOf(x[0], op.NumberOf(Attr::kExponent));
  if (fn == "round") {
    return op.NumberOf(Attr::kMethod) == 1 ? std::nearbyint(x[0])
                                           : std::round(x[0]);
  }
  if (fn == "not") return dtype == Dtype::kBool ? Truth(x[0] == 0) : -x[0] - 1;
  if (fn == "population_count" || fn == "clz") {
    const int bits = std::abs(program::IntegerBits(*dtype));
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    const uint64_t own = Bits(x[0]) & mask;
    if (fn == "clz")
      return own == 0 ? bits : __builtin_clzll(own) - (64 - bits);
    return __builtin_popcountll(own);
  }
  if (dtype == Dtype::kBool && x.size() == 2) {
    if (fn == "and") return Truth(x[0] != 0 && x[1] != 0);
    if (fn == "or") return Truth(x[0] != 0 || x[1] != 0);
    if (fn == "xor") return Truth((x[0] != 0) != (x[1] != 0));
  }
  if (x.size() == 1) return Unaries().at(fn)(x[0]);
  constexpr std::string_view kOfIntegers[] = {"mul",
                                              "div",
                                              "rem",
                                              "and",
                                              "or",
                                              "xor",
                                              "shift_left",
                                              "shift_right_logical",
                                              "shift_right_arithmetic"};
  if (IsInteger(dtype) &&
      std::ranges::find(kOfIntegers, fn) != std::end(kOfIntegers)) {
    return OfIntegers(fn, x[0], x[1], *dtype);
  }
  return Binaries().at(fn)(x[0], x[1]);
}

// ---- ops

class OneOp {
 public:
  OneOp(const Program& program, const Op& op,
        const std::vector<const Array*>& in, const Drawn& drawn,
        std::vector<Array>& results)
      : program_(program), op_(op), in_(in), drawn_(drawn), results_(results) {}

  void Run() {
    if (program::IsOpaque(program_, op_)) return Opaque();
    switch (op_.kind) {
      case OpKind::kConst:
        return Const();
      case OpKind::kRandom:
        for (size_t i = 0; i < results_.size(); ++i) {
          results_[i].data = drawn_(op_.out[i]);
        }
        return;
      case OpKind::kIota:
        return Each([&](const Position& at) {
          return static_cast<double>(at[AsIndex(op_.NumberOf(Attr::kDim))]);
        });
      case OpKind::kMap:
        return Map();
      case OpKind::kBroadcast:
        return Each([&](const Position& at) {
          Position from;
          const auto dims = op_.Of(Attr::kDims);
          for (size_t d = 0; d < dims.size(); ++d) {
            from.push_back(In().shape[d] == 1 ? 0 : at[AsIndex(dims[d])]);
          }
          return ElementAt(In(), from);
        });
      case OpKind::kReduce:
        return Reduce();
      case OpKind::kReshape:
      case OpKind::kConstraint:
        Out().data = In().data;
        return;
      case OpKind::kTranspose:
        return Each([&](const Position& at) {
          Position from(at.size());
          for (size_t d = 0; d < at.size(); ++d) {
            from[AsIndex(op_.Of(Attr::kPerm)[d])] = at[d];
          }
          return ElementAt(In(), from);
        });
      case OpKind::kSlice:
        return Each([&](Position at) {
          const auto stride = op_.Of(Attr::kStride);
          for (size_t d = 0; d < at.size(); ++d) {
            at[d] = op_.Of(Attr::kStart)[d] +
                    at[d] * (stride.empty() ? 1 : stride[d]);
          }
          return ElementAt(In(), at);
        });
      case OpKind::kConcat:
        return Each([&](Position at) {
          int64_t& row = at[AsIndex(op_.NumberOf(Attr::kDim))];
          size_t i = 0;
          while (row >= RowsOf(i)) row -= RowsOf(i++);
          return ElementAt(*in_[i], at);
        });
      case OpKind::kPad:
        return Each([&](Position at) {
          for (size_t d = 0; d < at.size(); ++d) {
            at[d] -= op_.Of(Attr::kLow)[d];
            const int64_t step = op_.Of(Attr::kInterior)[d] + 1;
            if (at[d] < 0 || at[d] % step != 0) return in_[1]->data[0];
            at[d] /= step;
            if (at[d] >= In().shape[d]) return in_[1]->data[0];
          }
          return ElementAt(In(), at);
        });
      case OpKind::kRev:
        return Each([&](Position at) {
          for (const int64_t d : op_.Of(Attr::kDims)) {
            at[AsIndex(d)] = In().shape[AsIndex(d)] - 1 - at[AsIndex(d)];
          }
          return ElementAt(In(), at);
        });
      case OpKind::kDot:
      case OpKind::kRaggedDot:
        return Dot();
      case OpKind::kConv:
        return Conv();
      case OpKind::kCumulative:
        return Cumulative();
      case OpKind::kSort:
      case OpKind::kTopK:
        return Sort();
      case OpKind::kGather:
        return Gather();
      case OpKind::kScatter:
        return Scatter();
      case OpKind::kDynamicSlice: {
        const Position start = Starts(1, Out().shape);
        return Each([&](Position at) {
          for (size_t d = 0; d < at.size(); ++d) at[d] += start[d];
          return ElementAt(In(), at);
        });
      }
      case OpKind::kDynamicUpdateSlice: {
        Out().data = In().data;
        const Position start = Starts(2, in_[1]->shape);
        ForPositions(in_[1]->shape, [&](const Position& at) {
          Position to = at;
          for (size_t d = 0; d < at.size(); ++d) to[d] += start[d];
          Out().data[OffsetOf(Out(), to)] = ElementAt(*in_[1], at);
        });
        return;
      }
      case OpKind::kSolve:
        return Solve();
      default:
        return;
    }
  }

  // Stores the results as their dtypes do.
  void Store() {
    for (size_t i = 0; i < results_.size(); ++i) {
      const auto dtype = program_.values[op_.out[i]].dtype;
      for (double& x : results_[i].data) x = Stored(x, dtype);
    }
  }

 private:
  const Array& In() const { return *in_[0]; }
  Array& Out() { return results_[0]; }
  int64_t RowsOf(size_t i) const {
    return in_[i]->shape[AsIndex(op_.NumberOf(Attr::kDim))];
  }

  template <class Function>
  void Each(const Function& function) {
    size_t next = 0;
    ForPositions(Out().shape, [&](const Position& at) {
      Out().data[next++] = function(at);
    });
  }

  // Stands for a function that nothing is known of: every element depends on
  // all elements of all operands.
  void Opaque() {
    double sum = 0;
    for (size_t k = 0; k < in_.size(); ++k) {
      const std::vector<double>& data = in_[k]->data;
      for (size_t i = 0; i < data.size(); ++i) {
        const double x = std::isfinite(data[i]) ? data[i] : 1;
        sum +=
            x * std::cos(0.7 * static_cast<double>(i) + static_cast<double>(k));
      }
    }
    for (size_t k = 0; k < results_.size(); ++k) {
      for (size_t i = 0; i < results_[k].data.size(); ++i) {
        results_[k].data[i] = std::sin(sum + 0.3 * static_cast<double>(i) +
                                       static_cast<double>(k));
      }
    }
  }

  void Const() {
    const program::Value& value = program_.values[op_.out[0]];
    if (!value.floats.empty()) {
      Out().data = value.floats;
    } else if (!value.integers.empty()) {
      Out().data.assign(value.integers.begin(), value.integers.end());
    } else {
      Out().data = drawn_(op_.out[0]);
    }
  }

  void Map() {
    Each([&](const Position& at) {
      std::vector<double> x;
      for (const Array* const one : in_) {
        Position from = at;
        from.resize(one->rank());
        for (size_t d = 0; d < from.size(); ++d) {
          if (one->shape[d] == 1) from[d] = 0;
        }
        x.push_back(ElementAt(*one, from));
      }
      return Element(program_, op_, x);
    });
  }

  void Reduce() {
    const auto axes = op_.Of(Attr::kAxes);
    const std::string& fn = op_.word;
    Position counts;
    for (size_t d = 0; d < In().rank(); ++d) {
      if (HasDim(axes, d)) counts.push_back(In().shape[d]);
    }
    const bool index = fn == "argmax" || fn == "argmin";
    Each([&](const Position& at) {
      bool first = true;
      double out = fn == "prod" || fn == "and" ? 1
                   : fn == "max"               ? -kInfinity
                   : fn == "min"               ? kInfinity
                                               : 0;
      double best = 0;
      ForPositions(counts, [&](const Position& inner) {
        Position from;
        size_t outer = 0;
        size_t reduced = 0;
        for (size_t d = 0; d < In().rank(); ++d) {
          from.push_back(HasDim(axes, d) ? inner[reduced++] : at[outer++]);
        }
        const double x = ElementAt(In(), from);
        if (index) {
          if (first || (fn == "argmax" ? x > best : x < best)) {
            best = x;
            out = static_cast<double>(inner[0]);
          }
        } else if (fn == "sum") {
          out += x;
        } else if (fn == "prod") {
          out *= x;
        } else if (fn == "max") {
          out = Maximum(out, x);
        } else if (fn == "min") {
          out = Minimum(out, x);
        } else if (fn == "and") {
          out = Truth(out != 0 && x != 0);
        } else if (fn == "or") {
          out = Truth(out != 0 || x != 0);
        } else {
          out = static_cast<double>(Bits(out) ^ Bits(x));
        }
        first = false;
      });
      return out;
    });
  }

  // The group of a row of the ragged dimension, or -1 after the last one.
  int64_t GroupOf(int64_t row) const {
    double end = 0;
    for (size_t g = 0; g < in_[2]->data.size(); ++g) {
      end += in_[2]->data[g];
      if (static_cast<double>(row) < end) return static_cast<int64_t>(g);
    }
    return -1;
  }

  void Dot() {
    const Array& a = In();
    const Array& b = *in_[1];
    const auto lc = op_.Of(Attr::kLhsContract);
    const auto rc = op_.Of(Attr::kRhsContract);
    const auto lb = op_.Of(Attr::kLhsBatch);
    const auto rb = op_.Of(Attr::kRhsBatch);
    const auto ragged = op_.Of(Attr::kLhsRagged);
    const auto group = op_.Of(Attr::kRhsGroup);
    const bool is_ragged = op_.kind == OpKind::kRaggedDot;
    const bool of_group = is_ragged && group.empty();
    Position counts;
    for (const int64_t d : lc) counts.push_back(a.shape[AsIndex(d)]);
    Each([&](const Position& at) {
      Position left(a.rank(), 0);
      Position right(b.rank(), 0);
      size_t next = of_group ? 1 : 0;
      for (size_t i = 0; i < lb.size(); ++i) {
        left[AsIndex(lb[i])] = right[AsIndex(rb[i])] = at[next++];
      }
      for (size_t d = 0; d < a.rank(); ++d) {
        if (!HasDim(lc, d) && !HasDim(lb, d)) left[d] = at[next++];
      }
      for (size_t d = 0; d < b.rank(); ++d) {
        if (!HasDim(rc, d) && !HasDim(rb, d) && !HasDim(group, d)) {
          right[d] = at[next++];
        }
      }
      if (is_ragged && !of_group) {
        const int64_t own = GroupOf(left[AsIndex(ragged[0])]);
        if (own < 0) return 0.0;
        right[AsIndex(group[0])] = own;
      }
      double sum = 0;
      ForPositions(counts, [&](const Position& k) {
        for (size_t i = 0; i < k.size(); ++i) {
          left[AsIndex(lc[i])] = right[AsIndex(rc[i])] = k[i];
        }
        if (of_group && GroupOf(left[AsIndex(ragged[0])]) != at[0]) return;
        sum += ElementAt(a, left) * ElementAt(b, right);
      });
      return sum;
    });
  }

  void Conv() {
    const auto lhs = op_.Of(Attr::kLhs);
    const auto rhs = op_.Of(Attr::kRhs);
    const auto result = op_.Of(Attr::kResult);
    const auto padding = op_.Of(Attr::kPadding);
    const auto strides = op_.Of(Attr::kStrides);
    const int64_t groups = op_.NumberOf(Attr::kGroups);
    const int64_t batches = op_.NumberOf(Attr::kBatchGroups, 1);
    const Array& x = In();
    const Array& kernel = *in_[1];
    const int64_t features = kernel.shape[AsIndex(rhs[1])];
    const int64_t outs = kernel.shape[AsIndex(rhs[0])];
    const auto dilation = [&](Attr attr, size_t d) {
      const auto all = op_.Of(attr);
      return all.empty() ? int64_t{1} : all[d];
    };
    Position taps;
    for (size_t d = 2; d < rhs.size(); ++d) {
      taps.push_back(kernel.shape[AsIndex(rhs[d])]);
    }
    Each([&](const Position& at) {
      const int64_t out = at[AsIndex(result[1])];
      double sum = 0;
      ForPositions(taps, [&](const Position& tap) {
        Position from(x.rank());
        Position weight(kernel.rank());
        weight[AsIndex(rhs[0])] = out;
        for (size_t d = 0; d < tap.size(); ++d) {
          weight[AsIndex(rhs[d + 2])] = tap[d];
          int64_t row = at[AsIndex(result[d + 2])] * strides[d] +
                        tap[d] * dilation(Attr::kRhsDilation, d) -
                        padding[2 * d];
          const int64_t step = dilation(Attr::kLhsDilation, d);
          if (row < 0 || row % step != 0) return;
          row /= step;
          if (row >= x.shape[AsIndex(lhs[d + 2])]) return;
          from[AsIndex(lhs[d + 2])] = row;
        }
        const int64_t rows = x.shape[AsIndex(lhs[0])] / batches;
        from[AsIndex(lhs[0])] =
            at[AsIndex(result[0])] + out / (outs / batches) * rows;
        for (int64_t k = 0; k < features; ++k) {
          weight[AsIndex(rhs[1])] = k;
          from[AsIndex(lhs[1])] = out / (outs / groups) * features + k;
          sum += ElementAt(x, from) * ElementAt(kernel, weight);
        }
      });
      return sum;
    });
  }

  void Cumulative() {
    const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
    const bool reverse = op_.NumberOf(Attr::kReverse) != 0;
    const std::string& fn = op_.word;
    const int64_t size = In().shape[dim];
    Position lines = In().shape;
    lines[dim] = size == 0 ? 0 : 1;
    ForPositions(lines, [&](Position at) {
      double total = 0;
      for (int64_t i = 0; i < size; ++i) {
        at[dim] = reverse ? size - 1 - i : i;
        const double x = ElementAt(In(), at);
        if (i == 0) {
          total = x;
        } else if (fn == "sum") {
          total += x;
        } else if (fn == "prod") {
          total *= x;
        } else if (fn == "max") {
          total = Maximum(total, x);
        } else if (fn == "min") {
          total = Minimum(total, x);
        } else {
          const double top = std::max(total, x);
          if (!std::isinf(top)) {
            total = top + std::log(std::exp(total - top) + std::exp(x - top));
          } else {
            total = top;
          }
        }
        Out().data[OffsetOf(Out(), at)] = total;
      }
    });
  }

  // A sort by the first operands, or the largest elements and their indices.
  void Sort() {
    const bool top = op_.kind == OpKind::kTopK;
    const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
    const size_t keys = AsIndex(top ? 1 : op_.NumberOf(Attr::kKeys, 1));
    const int64_t size = In().shape[dim];
    Position lines = In().shape;
    lines[dim] = size == 0 ? 0 : 1;
    ForPositions(lines, [&](Position at) {
      const auto read = [&](size_t operand, int64_t i) {
        at[dim] = i;
        return ElementAt(*in_[operand], at);
      };
      std::vector<int64_t> order(AsIndex(size));
      std::iota(order.begin(), order.end(), int64_t{0});
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
        for (size_t k = 0; k < keys; ++k) {
          const double x = read(k, a);
          const double y = read(k, b);
          if (x != y) return top ? x > y : x < y;
        }
        return false;
      });
      for (int64_t i = 0; i < results_[0].shape[dim]; ++i) {
        const int64_t from = order[AsIndex(i)];
        for (size_t k = 0; k < results_.size(); ++k) {
          const double x =
              top && k == 1 ? static_cast<double>(from) : read(k, from);
          at[dim] = i;
          results_[k].data[OffsetOf(results_[k], at)] = x;
        }
      }
    });
  }

  // Where a slice of the operand begins, by an index vector. Returns whether
  // the slice is inside; moves it inside otherwise.
  bool SliceStart(const Position& batch, std::span<const int64_t> map,
                  const Position& sizes, Position& start) const {
    Position at = batch;
    at.push_back(0);
    start.assign(In().rank(), 0);
    for (size_t c = 0; c < map.size(); ++c) {
      at.back() = static_cast<int64_t>(c);
      start[AsIndex(map[c])] = static_cast<int64_t>(ElementAt(*in_[1], at));
    }
    const auto batched = op_.Of(Attr::kOperandBatchDims);
    for (size_t i = 0; i < batched.size(); ++i) {
      start[AsIndex(batched[i])] =
          batch[AsIndex(op_.Of(Attr::kIndicesBatchDims)[i])];
    }
    bool inside = true;
    for (size_t d = 0; d < start.size(); ++d) {
      const int64_t last = In().shape[d] - sizes[d];
      inside = inside && start[d] >= 0 && start[d] <= last;
      start[d] = std::clamp<int64_t>(start[d], 0, last);
    }
    return inside;
  }

  // Splits a position of slices into that of the index vector and that in the
  // slice, whose removed dimensions are 0.
  void SplitPosition(const Position& at, std::span<const int64_t> window,
                     std::span<const int64_t> removed, Position& batch,
                     Position& offset) const {
    batch.clear();
    Position inner;
    for (size_t d = 0; d < at.size(); ++d) {
      (HasDim(window, d) ? inner : batch).push_back(at[d]);
    }
    offset.assign(In().rank(), 0);
    size_t next = 0;
    for (size_t d = 0; d < In().rank(); ++d) {
      if (!HasDim(removed, d) && !HasDim(op_.Of(Attr::kOperandBatchDims), d)) {
        offset[d] = inner[next++];
      }
    }
  }

  double FillOf() const {
    if (op_.fill) return *op_.fill;
    const auto dtype = program_.values[op_.out[0]].dtype;
    if (dtype == Dtype::kBool) return 0;
    if (!IsInteger(dtype)) return kNan;
    const int bits = program::IntegerBits(*dtype);
    return bits > 0 ? -std::ldexp(1.0, bits - 1) : std::ldexp(1.0, -bits) - 1;
  }

  void Gather() {
    const auto sizes = op_.Of(Attr::kSliceSizes);
    Position start;
    Position batch;
    Position offset;
    Each([&](const Position& at) {
      SplitPosition(at, op_.Of(Attr::kOffsetDims), op_.Of(Attr::kCollapsedDims),
                    batch, offset);
      const bool inside = SliceStart(batch, op_.Of(Attr::kStartIndexMap),
                                     {sizes.begin(), sizes.end()}, start);
      if (!inside && op_.mode == IndexMode::kFill) return FillOf();
      for (size_t d = 0; d < start.size(); ++d) start[d] += offset[d];
      return ElementAt(In(), start);
    });
  }

  void Scatter() {
    Out().data = In().data;
    const auto window = op_.Of(Attr::kUpdateWindowDims);
    const auto removed = op_.Of(Attr::kInsertedDims);
    Position sizes(In().rank(), 1);
    size_t next = 0;
    for (size_t d = 0; d < In().rank(); ++d) {
      if (HasDim(removed, d) || HasDim(op_.Of(Attr::kOperandBatchDims), d)) {
        continue;
      }
      while (!HasDim(window, next)) ++next;
      sizes[d] = in_[2]->shape[next++];
    }
    Position start;
    Position batch;
    Position offset;
    ForPositions(in_[2]->shape, [&](const Position& at) {
      SplitPosition(at, window, removed, batch, offset);
      const bool inside =
          SliceStart(batch, op_.Of(Attr::kOperandDims), sizes, start);
      if (!inside && op_.mode != IndexMode::kClip) return;
      for (size_t d = 0; d < start.size(); ++d) start[d] += offset[d];
      double& x = Out().data[OffsetOf(Out(), start)];
      const double update = ElementAt(*in_[2], at);
      const std::string& fn = op_.word;
      x = fn == "add"   ? x + update
          : fn == "sub" ? x - update
          : fn == "mul" ? x * update
          : fn == "max" ? Maximum(x, update)
          : fn == "min" ? Minimum(x, update)
                        : update;
    });
  }

  // The first position of a dynamic slice, whose scalar indices begin with the
  // operand `first`.
  Position Starts(size_t first, const Position& sizes) const {
    Position out;
    for (size_t d = 0; d < In().rank(); ++d) {
      const auto start = static_cast<int64_t>(in_[first + d]->data[0]);
      out.push_back(std::clamp<int64_t>(start, 0, In().shape[d] - sizes[d]));
    }
    return out;
  }

  void Solve() {
    const bool left = op_.NumberOf(Attr::kLeftSide) != 0;
    const bool transpose = op_.NumberOf(Attr::kTranspose) != 0;
    const bool unit = op_.NumberOf(Attr::kUnitDiagonal) != 0;
    const bool lower = op_.NumberOf(Attr::kLower) != 0;
    const size_t rank = In().rank();
    const int64_t n = In().shape[rank - 1];
    const size_t solved = left ? rank - 2 : rank - 1;
    Position lines = Out().shape;
    lines[solved] = n == 0 ? 0 : 1;
    // x op(A) = b is op(A)^T x^T = b^T.
    const bool turned = transpose == left;
    const bool forward = lower != turned;
    ForPositions(lines, [&](Position at) {
      Position matrix(at.begin(), at.end());
      for (int64_t step = 0; step < n; ++step) {
        const int64_t i = forward ? step : n - 1 - step;
        at[solved] = i;
        double x = ElementAt(*in_[1], at);
        const size_t to = OffsetOf(Out(), at);
        for (int64_t k = forward ? 0 : i + 1; k < (forward ? i : n); ++k) {
          matrix[rank - 2] = turned ? k : i;
          matrix[rank - 1] = turned ? i : k;
          at[solved] = k;
          x -= ElementAt(In(), matrix) * ElementAt(Out(), at);
        }
        matrix[rank - 2] = matrix[rank - 1] = i;
        Out().data[to] = unit ? x : x / ElementAt(In(), matrix);
      }
    });
  }

  const Program& program_;
  const Op& op_;
  const std::vector<const Array*>& in_;
  const Drawn& drawn_;
  std::vector<Array>& results_;
};

}  // namespace

void RunProgramOp(const Program& program, const Op& op,
                  const std::vector<const Array*>& in, const Drawn& drawn,
                  std::vector<Array>& out) {
  OneOp one(program, op, in, drawn, out);
  one.Run();
  one.Store();
}

}  // namespace shardc::dense
