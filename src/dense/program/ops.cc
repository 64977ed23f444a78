// The ops of a traced program on arrays of doubles. Each op is written from its
// definition: a loop over positions of the result, which reads the operands at
// the positions that the definition names. For example, element [i, j] of
// `transpose` with perm [1, 0] is element [j, i] of the operand: a step in the
// result's dimension 0 is a step in the operand's dimension 1.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>
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

// How far one step in each dimension moves in an array of this shape.
Position Strides(const Position& shape) {
  Position out(shape.size());
  int64_t each = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    out[d] = each;
    each *= shape[d];
  }
  return out;
}

int64_t CountOf(const Position& shape) {
  int64_t out = 1;
  for (const int64_t size : shape) out *= size;
  return out;
}

// An array as a loop reads or writes it: the element at the loop's first
// position, and how far a step in each dimension of the loop moves.
struct View {
  int64_t first = 0;
  Position steps;
};

// Calls `visit` with the offsets in all views of each position of a shape, in
// row-major order.
template <size_t kViews, class Visit>
void ForOffsets(const Position& shape, const std::array<View, kViews>& views,
                const Visit& visit) {
  if (CountOf(shape) == 0) return;
  std::array<int64_t, kViews> row{};
  std::array<int64_t, kViews> step{};
  for (size_t v = 0; v < kViews; ++v) {
    row[v] = views[v].first;
    if (!shape.empty()) step[v] = views[v].steps.back();
  }
  const int64_t width = shape.empty() ? 1 : shape.back();
  // The position of the row, whose dimensions are all but the last one.
  Position at(shape.empty() ? 0 : shape.size() - 1, 0);
  while (true) {
    std::array<int64_t, kViews> offset = row;
    for (int64_t i = 0; i < width; ++i) {
      visit(offset);
      for (size_t v = 0; v < kViews; ++v) offset[v] += step[v];
    }
    size_t d = at.size();
    while (d > 0) {
      --d;
      for (size_t v = 0; v < kViews; ++v) row[v] += views[v].steps[d];
      if (++at[d] < shape[d]) break;
      for (size_t v = 0; v < kViews; ++v) {
        row[v] -= views[v].steps[d] * shape[d];
      }
      at[d] = 0;
      if (d == 0) return;
    }
    if (at.empty()) return;
  }
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
// bits. `bits` is the width of the operands' dtype, of which the result has the
// low bits.
using OfIntegers = double (*)(double a, double b, int bits);

double LowBits(uint64_t x, int bits) {
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return static_cast<double>(x & mask);
}

// The product modulo 2^64, by halves whose products do not overflow.
uint64_t LowProduct(uint64_t x, uint64_t y) {
  constexpr uint64_t kHalf = 0xFFFFFFFF;
  const uint64_t cross =
      ((x >> 32) * (y & kHalf) & kHalf) + ((x & kHalf) * (y >> 32) & kHalf);
  uint64_t out = 0;
  __builtin_add_overflow((x & kHalf) * (y & kHalf), (cross & kHalf) << 32,
                         &out);
  return out;
}

const std::map<std::string_view, OfIntegers>& IntegerFunctions() {
  static const std::map<std::string_view, OfIntegers> kTable = {
      {"mul",
       [](double a, double b, int bits) {
         return LowBits(LowProduct(Bits(a), Bits(b)), bits);
       }},
      {"and", [](double a, double b,
                 int bits) { return LowBits(Bits(a) & Bits(b), bits); }},
      {"or", [](double a, double b,
                int bits) { return LowBits(Bits(a) | Bits(b), bits); }},
      {"xor", [](double a, double b,
                 int bits) { return LowBits(Bits(a) ^ Bits(b), bits); }},
      {"shift_left",
       [](double a, double b, int bits) {
         const bool inside = Bits(b) < static_cast<uint64_t>(bits);
         return inside ? LowBits(Bits(a) << Bits(b), bits) : 0.0;
       }},
      {"shift_right_logical",
       [](double a, double b, int bits) {
         const bool inside = Bits(b) < static_cast<uint64_t>(bits);
         const uint64_t mask = (uint64_t{1} << bits) - 1;
         return inside ? LowBits((Bits(a) & mask) >> Bits(b), bits) : 0.0;
       }},
      {"shift_right_arithmetic",
       [](double a, double b, int bits) {
         // A shift that is out of range leaves only the sign.
         const double by = b >= 0 && b < bits ? b : 63;
         return std::floor(std::ldexp(a, -static_cast<int>(by)));
       }},
      {"div", [](double a, double b,
                 int /*bits*/) { return b == 0 ? -1 : std::trunc(a / b); }},
      {"rem", [](double a, double b,
                 int /*bits*/) { return b == 0 ? a : std::fmod(a, b); }},
  };
  return kTable;
}

double PowerOf(double x, int64_t exponent) {
  double out = 1;
  for (int64_t i = 0; i < std::abs(exponent); ++i) out *= x;
  return exponent < 0 ? 1 / out : out;
}

double ZeroBits(double x, int bits) {
  const uint64_t own = Bits(x) & ((uint64_t{1} << bits) - 1);
  return own == 0 ? bits : __builtin_clzll(own) - (64 - bits);
}
double SetBits(double x, int bits) {
  return __builtin_popcountll(Bits(x) & ((uint64_t{1} << bits) - 1));
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
        return Iota();
      case OpKind::kMap:
        return Map();
      case OpKind::kBroadcast: {
        View from{0, Position(Out().rank(), 0)};
        const auto dims = op_.Of(Attr::kDims);
        const Position strides = Strides(In().shape);
        for (size_t d = 0; d < dims.size(); ++d) {
          if (In().shape[d] != 1) from.steps[AsIndex(dims[d])] = strides[d];
        }
        return Read(from);
      }
      case OpKind::kReduce:
        return Reduce();
      case OpKind::kReshape:
      case OpKind::kConstraint:
        Out().data = In().data;
        return;
      case OpKind::kTranspose: {
        View from{0, {}};
        const Position strides = Strides(In().shape);
        for (const int64_t d : op_.Of(Attr::kPerm)) {
          from.steps.push_back(strides[AsIndex(d)]);
        }
        return Read(from);
      }
      case OpKind::kSlice: {
        View from{0, Strides(In().shape)};
        const auto stride = op_.Of(Attr::kStride);
        for (size_t d = 0; d < from.steps.size(); ++d) {
          from.first += op_.Of(Attr::kStart)[d] * from.steps[d];
          if (!stride.empty()) from.steps[d] *= stride[d];
        }
        return Read(from);
      }
      case OpKind::kConcat:
        return Concat();
      case OpKind::kPad:
        return Pad();
      case OpKind::kRev: {
        View from{0, Strides(In().shape)};
        for (const int64_t dim : op_.Of(Attr::kDims)) {
          int64_t& step = from.steps[AsIndex(dim)];
          from.first += (In().shape[AsIndex(dim)] - 1) * step;
          step = -step;
        }
        return Read(from);
      }
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
        View from{0, Strides(In().shape)};
        const Position start = Starts(1, Out().shape);
        for (size_t d = 0; d < start.size(); ++d) {
          from.first += start[d] * from.steps[d];
        }
        return Read(from);
      }
      case OpKind::kDynamicUpdateSlice: {
        Out().data = In().data;
        View to{0, Strides(Out().shape)};
        const Position start = Starts(2, in_[1]->shape);
        for (size_t d = 0; d < start.size(); ++d) {
          to.first += start[d] * to.steps[d];
        }
        return Write(*in_[1], in_[1]->shape, {0, Strides(in_[1]->shape)}, to);
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
      if (dtype != Dtype::kBool && !IsInteger(dtype)) continue;
      for (double& x : results_[i].data) x = Stored(x, dtype);
    }
  }

 private:
  const Array& In() const { return *in_[0]; }
  Array& Out() { return results_[0]; }

  // Reads each element of the result from the only operand that has elements.
  void Read(const View& from) {
    size_t next = 0;
    ForOffsets<1>(Out().shape, {from}, [&](const auto& at) {
      Out().data[next++] = In().data[AsIndex(at[0])];
    });
  }

  // Writes elements of an operand to places of the result.
  void Write(const Array& operand, const Position& shape, const View& from,
             const View& to) {
    ForOffsets<2>(shape, {from, to}, [&](const auto& at) {
      Out().data[AsIndex(at[1])] = operand.data[AsIndex(at[0])];
    });
  }

  void Iota() {
    View index{0, Position(Out().rank(), 0)};
    index.steps[AsIndex(op_.NumberOf(Attr::kDim))] = 1;
    size_t next = 0;
    ForOffsets<1>(Out().shape, {index}, [&](const auto& at) {
      Out().data[next++] = static_cast<double>(at[0]);
    });
  }

  void Concat() {
    const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
    View to{0, Strides(Out().shape)};
    for (const Array* const one : in_) {
      Write(*one, one->shape, {0, Strides(one->shape)}, to);
      to.first += one->shape[dim] * to.steps[dim];
    }
  }

  // Element i of the operand is element low + i (interior + 1) of the result,
  // if the result has that one.
  void Pad() {
    std::ranges::fill(Out().data, in_[1]->data[0]);
    Position count = In().shape;
    View from{0, Strides(In().shape)};
    View to{0, Strides(Out().shape)};
    for (size_t d = 0; d < count.size(); ++d) {
      const int64_t apart = op_.Of(Attr::kInterior)[d] + 1;
      const int64_t low = op_.Of(Attr::kLow)[d];
      const auto place = [&](int64_t i) { return low + i * apart; };
      int64_t begin = 0;
      int64_t end = count[d];
      while (begin < end && place(begin) < 0) ++begin;
      while (begin < end && place(end - 1) >= Out().shape[d]) --end;
      count[d] = end - begin;
      from.first += begin * from.steps[d];
      to.first += place(begin) * to.steps[d];
      to.steps[d] *= apart;
    }
    Write(In(), count, from, to);
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

  // An operand of a map in the result's positions.
  View Repeated(const Array& operand) const {
    View out{0, Position(results_[0].rank(), 0)};
    const Position strides = Strides(operand.shape);
    for (size_t d = 0; d < strides.size(); ++d) {
      if (operand.shape[d] != 1) out.steps[d] = strides[d];
    }
    return out;
  }

  template <class Function>
  void MapOne(const Function& function) {
    size_t next = 0;
    for (const double x : In().data) Out().data[next++] = function(x);
  }
  template <class Function>
  void MapTwo(const Function& function) {
    const double* const x = in_[0]->data.data();
    const double* const y = in_[1]->data.data();
    double* out = Out().data.data();
    ForOffsets<2>(
        Out().shape, {Repeated(*in_[0]), Repeated(*in_[1])},
        [&](const auto& at) { *out++ = function(x[at[0]], y[at[1]]); });
  }
  template <class Function>
  void MapThree(const Function& function) {
    const double* const x = in_[0]->data.data();
    const double* const y = in_[1]->data.data();
    const double* const z = in_[2]->data.data();
    double* out = Out().data.data();
    ForOffsets<3>(Out().shape,
                  {Repeated(*in_[0]), Repeated(*in_[1]), Repeated(*in_[2])},
                  [&](const auto& at) {
                    *out++ = function(x[at[0]], y[at[1]], z[at[2]]);
                  });
  }

  // The operands of a select may be single numbers, as their condition.
  void Select() {
    const auto last = static_cast<double>(in_.size() - 2);
    std::vector<double> which;
    ForOffsets<1>(Out().shape, {Repeated(In())}, [&](const auto& at) {
      which.push_back(std::clamp(In().data[AsIndex(at[0])], 0.0, last));
    });
    for (size_t i = 1; i < in_.size(); ++i) {
      const double own = static_cast<double>(i - 1);
      size_t next = 0;
      ForOffsets<1>(Out().shape, {Repeated(*in_[i])}, [&](const auto& at) {
        // A condition is truncated, as an index is.
        if (std::trunc(which[next]) == own) {
          Out().data[next] = in_[i]->data[AsIndex(at[0])];
        }
        ++next;
      });
    }
  }

  void Map() {
    const std::string& fn = op_.word;
    const auto dtype = program_.values[op_.in[0]].dtype;
    const bool boolean = dtype == Dtype::kBool;
    const int bits = boolean ? 1
                     : dtype ? std::abs(program::IntegerBits(*dtype))
                             : 0;
    if (fn == "select") return Select();
    if (fn == "clamp") {
      return MapThree([](double low, double x, double high) {
        return Minimum(Maximum(low, x), high);
      });
    }
    if (fn == "integer_pow") {
      const int64_t exponent = op_.NumberOf(Attr::kExponent);
      return MapOne([&](double x) { return PowerOf(x, exponent); });
    }
    if (fn == "round") {
      const bool even = op_.NumberOf(Attr::kMethod) == 1;
      return MapOne(
          [&](double x) { return even ? std::nearbyint(x) : std::round(x); });
    }
    if (fn == "not") {
      return MapOne([&](double x) { return boolean ? Truth(x == 0) : -x - 1; });
    }
    if (fn == "clz") return MapOne([&](double x) { return ZeroBits(x, bits); });
    if (fn == "population_count") {
      return MapOne([&](double x) { return SetBits(x, bits); });
    }
    if (in_.size() == 1) return MapOne(Unaries().at(fn));
    if (boolean && fn == "and") {
      return MapTwo([](double a, double b) { return Truth(a != 0 && b != 0); });
    }
    if (boolean && fn == "or") {
      return MapTwo([](double a, double b) { return Truth(a != 0 || b != 0); });
    }
    if (boolean && fn == "xor") {
      return MapTwo(
          [](double a, double b) { return Truth((a != 0) != (b != 0)); });
    }
    const auto of_numbers = Binaries().find(fn);
    const auto of_integers = IntegerFunctions().find(fn);
    if (bits == 0 || of_integers == IntegerFunctions().end() ||
        (boolean && of_numbers != Binaries().end())) {
      return MapTwo(of_numbers->second);
    }
    MapTwo([&](double a, double b) { return of_integers->second(a, b, bits); });
  }

  // Calls `add` for each element that a reduction combines into an element of
  // the result, after `begin` with that element.
  template <class Begin, class Add>
  void ForReduced(const Begin& begin, const Add& add) {
    const auto axes = op_.Of(Attr::kAxes);
    const Position strides = Strides(In().shape);
    Position counts;
    View kept;
    View reduced;
    for (size_t d = 0; d < In().rank(); ++d) {
      if (HasDim(axes, d)) {
        counts.push_back(In().shape[d]);
        reduced.steps.push_back(strides[d]);
      } else {
        kept.steps.push_back(strides[d]);
      }
    }
    size_t next = 0;
    ForOffsets<1>(Out().shape, {kept}, [&](const auto& at) {
      double& out = Out().data[next++];
      begin(out);
      reduced.first = at[0];
      ForOffsets<1>(counts, {reduced}, [&](const auto& from) {
        add(In().data[AsIndex(from[0])], out);
      });
    });
  }

  void Reduce() {
    const std::string& fn = op_.word;
    const auto from = [&](double first, const auto& add) {
      ForReduced([&](double& out) { out = first; }, add);
    };
    if (fn == "argmax" || fn == "argmin") {
      const bool largest = fn == "argmax";
      int64_t index = 0;
      double best = 0;
      return ForReduced(
          [&](double& out) { out = static_cast<double>(index = 0); },
          [&](double x, double& out) {
            if (index == 0 || (largest ? x > best : x < best)) {
              best = x;
              out = static_cast<double>(index);
            }
            ++index;
          });
    }
    if (fn == "sum") return from(0, [](double x, double& out) { out += x; });
    if (fn == "prod") return from(1, [](double x, double& out) { out *= x; });
    if (fn == "max") {
      return from(-kInfinity,
                  [](double x, double& out) { out = Maximum(out, x); });
    }
    if (fn == "min") {
      return from(kInfinity,
                  [](double x, double& out) { out = Minimum(out, x); });
    }
    if (fn == "and") {
      return from(
          1, [](double x, double& out) { out = Truth(out != 0 && x != 0); });
    }
    if (fn == "or") {
      return from(
          0, [](double x, double& out) { out = Truth(out != 0 || x != 0); });
    }
    from(0, [](double x, double& out) {
      out = static_cast<double>(Bits(out) ^ Bits(x));
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

  // Returns the elements of an array in the order of these dimensions, each of
  // which is a row of the product's matrices in turn.
  static std::vector<double> InOrder(const Array& x, const Position& dims) {
    const Position strides = Strides(x.shape);
    Position shape;
    View from;
    for (const int64_t d : dims) {
      shape.push_back(x.shape[AsIndex(d)]);
      from.steps.push_back(strides[AsIndex(d)]);
    }
    std::vector<double> out;
    out.reserve(x.data.size());
    ForOffsets<1>(shape, {from}, [&](const auto& at) {
      out.push_back(x.data[AsIndex(at[0])]);
    });
    return out;
  }

  // An element of a product is the sum of the products of two rows: the left
  // operand is put in the order [batch, rows, contracted], and the right one in
  // the order [batch, columns, contracted].
  void Dot() {
    if (op_.kind == OpKind::kRaggedDot) return RaggedDot();
    const auto lb = op_.Of(Attr::kLhsBatch);
    const auto rb = op_.Of(Attr::kRhsBatch);
    const Sides left = SidesOf(In(), op_.Of(Attr::kLhsContract), lb, {});
    const Sides right = SidesOf(*in_[1], op_.Of(Attr::kRhsContract), rb, {});
    const std::vector<double> a = InOrder(In(), left.order);
    const std::vector<double> b = InOrder(*in_[1], right.order);
    const size_t batches = AsIndex(left.batch);
    const size_t rows = AsIndex(left.free);
    const size_t columns = AsIndex(right.free);
    const size_t inner = AsIndex(left.contracted);
    double* out = Out().data.data();
    for (size_t i = 0; i < batches; ++i) {
      for (size_t m = 0; m < rows; ++m) {
        const double* const x = a.data() + (i * rows + m) * inner;
        const double* y = b.data() + i * columns * inner;
        size_t n = 0;
        for (; n + 4 <= columns; n += 4) {
          // Four sums at a time, each in the order of the elements.
          double sum[4] = {};
          for (size_t k = 0; k < inner; ++k) {
            sum[0] += x[k] * y[k];
            sum[1] += x[k] * y[k + inner];
            sum[2] += x[k] * y[k + 2 * inner];
            sum[3] += x[k] * y[k + 3 * inner];
          }
          out = std::copy(sum, sum + 4, out);
          y += 4 * inner;
        }
        for (; n < columns; ++n) {
          double sum = 0;
          for (size_t k = 0; k < inner; ++k) sum += x[k] * y[k];
          *out++ = sum;
          y += inner;
        }
      }
    }
  }

  // The dimensions of an operand of a product in the order batch, free,
  // contracted, and how many elements each of these has. `left_out` is none of
  // them.
  struct Sides {
    Position order;
    int64_t batch = 1, free = 1, contracted = 1;
  };
  static Sides SidesOf(const Array& x, std::span<const int64_t> contracted,
                       std::span<const int64_t> batch,
                       std::span<const int64_t> left_out) {
    Sides out;
    for (const int64_t d : batch) {
      out.order.push_back(d);
      out.batch *= x.shape[AsIndex(d)];
    }
    for (size_t d = 0; d < x.rank(); ++d) {
      if (HasDim(contracted, d) || HasDim(batch, d) || HasDim(left_out, d)) {
        continue;
      }
      out.order.push_back(static_cast<int64_t>(d));
      out.free *= x.shape[d];
    }
    for (const int64_t d : contracted) {
      out.order.push_back(d);
      out.contracted *= x.shape[AsIndex(d)];
    }
    return out;
  }

  // The group of each row of the ragged dimension decides which part of the
  // right operand the row is multiplied by, or to which part of the result a
  // contracted row adds.
  void RaggedDot() {
    const Array& a = In();
    const Array& b = *in_[1];
    const auto lc = op_.Of(Attr::kLhsContract);
    const auto rc = op_.Of(Attr::kRhsContract);
    const auto lb = op_.Of(Attr::kLhsBatch);
    const auto rb = op_.Of(Attr::kRhsBatch);
    const auto ragged = op_.Of(Attr::kLhsRagged);
    const auto group = op_.Of(Attr::kRhsGroup);
    const bool of_group = group.empty();
    const Position left = Strides(a.shape);
    const Position right = Strides(b.shape);
    std::vector<int64_t> groups;
    for (int64_t row = 0; row < a.shape[AsIndex(ragged[0])]; ++row) {
      groups.push_back(GroupOf(row));
    }
    // The loop over the result, with the ragged row or the group as the last
    // view, and the loop over what is contracted.
    View of_a{0, {}};
    View of_b{0, {}};
    View row{0, {}};
    const auto add = [&](int64_t in_a, int64_t in_b, int64_t in_row) {
      of_a.steps.push_back(in_a);
      of_b.steps.push_back(in_b);
      row.steps.push_back(in_row);
    };
    if (of_group) add(0, 0, 1);
    for (size_t i = 0; i < lb.size(); ++i) {
      add(left[AsIndex(lb[i])], right[AsIndex(rb[i])], 0);
    }
    for (size_t d = 0; d < a.rank(); ++d) {
      if (HasDim(lc, d) || HasDim(lb, d)) continue;
      add(left[d], 0, !of_group && HasDim(ragged, d) ? 1 : 0);
    }
    for (size_t d = 0; d < b.rank(); ++d) {
      if (HasDim(rc, d) || HasDim(rb, d) || HasDim(group, d)) continue;
      add(0, right[d], 0);
    }
    Position counts;
    View inner_a{0, {}};
    View inner_b{0, {}};
    View inner_row{0, {}};
    for (size_t i = 0; i < lc.size(); ++i) {
      counts.push_back(a.shape[AsIndex(lc[i])]);
      inner_a.steps.push_back(left[AsIndex(lc[i])]);
      inner_b.steps.push_back(right[AsIndex(rc[i])]);
      inner_row.steps.push_back(of_group && lc[i] == ragged[0] ? 1 : 0);
    }
    size_t next = 0;
    ForOffsets<3>(Out().shape, {of_a, of_b, row}, [&](const auto& at) {
      double& sum = Out().data[next++];
      inner_a.first = at[0];
      inner_b.first = at[1];
      if (!of_group) {
        const int64_t own = groups[AsIndex(at[2])];
        if (own < 0) return;
        inner_b.first += own * right[AsIndex(group[0])];
      }
      ForOffsets<3>(counts, {inner_a, inner_b, inner_row}, [&](const auto& k) {
        if (of_group && groups[AsIndex(k[2])] != at[2]) return;
        sum += a.data[AsIndex(k[0])] * b.data[AsIndex(k[1])];
      });
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
    const Position in_x = Strides(x.shape);
    const Position in_kernel = Strides(kernel.shape);
    const int64_t features = kernel.shape[AsIndex(rhs[1])];
    const int64_t outs = kernel.shape[AsIndex(rhs[0])];
    const int64_t rows = x.shape[AsIndex(lhs[0])] / batches;
    const auto dilation = [&](Attr attr, size_t d) {
      const auto all = op_.Of(attr);
      return all.empty() ? int64_t{1} : all[d];
    };
    Position taps;
    for (size_t d = 2; d < rhs.size(); ++d) {
      taps.push_back(kernel.shape[AsIndex(rhs[d])]);
    }
    // For each place and row of the result the windows' elements that are in
    // the operand, as offsets there and in the kernel; then all its features.
    Position places = Out().shape;
    places[AsIndex(result[1])] = 1;
    const int64_t step = Strides(Out().shape)[AsIndex(result[1])];
    const int64_t of_x = in_x[AsIndex(lhs[1])];
    const int64_t of_kernel = in_kernel[AsIndex(rhs[1])];
    std::vector<std::pair<int64_t, int64_t>> window;
    Position tap(taps.size(), 0);
    const View results{0, Strides(Out().shape)};
    Position at(places.size(), 0);
    ForOffsets<1>(places, {results}, [&](const auto& to) {
      window.clear();
      for (int64_t i = 0; i < CountOf(taps); ++i) {
        int64_t from = at[AsIndex(result[0])] * in_x[AsIndex(lhs[0])];
        int64_t weight = 0;
        bool inside = true;
        for (size_t d = 0; d < taps.size(); ++d) {
          int64_t place = at[AsIndex(result[d + 2])] * strides[d] +
                          tap[d] * dilation(Attr::kRhsDilation, d) -
                          padding[2 * d];
          const int64_t apart = dilation(Attr::kLhsDilation, d);
          inside = inside && place >= 0 && place % apart == 0;
          place /= apart;
          inside = inside && place < x.shape[AsIndex(lhs[d + 2])];
          from += place * in_x[AsIndex(lhs[d + 2])];
          weight += tap[d] * in_kernel[AsIndex(rhs[d + 2])];
        }
        if (inside) window.emplace_back(from, weight);
        Advance(taps, tap);
      }
      for (int64_t out = 0; out < outs; ++out) {
        const int64_t in_row = out / (outs / batches) * rows;
        const int64_t in_feature = out / (outs / groups) * features;
        const int64_t first =
            in_row * in_x[AsIndex(lhs[0])] + in_feature * of_x;
        const int64_t weights = out * in_kernel[AsIndex(rhs[0])];
        double sum = 0;
        for (const auto& [from, weight] : window) {
          for (int64_t k = 0; k < features; ++k) {
            sum += x.data[AsIndex(first + from + k * of_x)] *
                   kernel.data[AsIndex(weights + weight + k * of_kernel)];
          }
        }
        Out().data[AsIndex(to[0] + out * step)] = sum;
      }
      Advance(places, at);
    });
  }

  // Moves to the next position of a shape, and from the last one to the first.
  static void Advance(const Position& shape, Position& at) {
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < shape[d]) return;
      at[d] = 0;
    }
  }

  // Calls `line` with the offsets of the first element of each line along a
  // dimension, in arrays that have the operand's shape but for that dimension.
  template <size_t kViews, class Line>
  void ForLines(size_t dim, const std::array<View, kViews>& views,
                const Line& line) {
    Position lines = In().shape;
    lines[dim] = lines[dim] == 0 ? 0 : 1;
    ForOffsets<kViews>(lines, views, line);
  }

  void Cumulative() {
    const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
    const bool reverse = op_.NumberOf(Attr::kReverse) != 0;
    const std::string& fn = op_.word;
    const int64_t size = In().shape[dim];
    const View view{0, Strides(In().shape)};
    const auto run = [&](const auto& add) {
      ForLines<1>(dim, {view}, [&](const auto& at) {
        double total = 0;
        for (int64_t i = 0; i < size; ++i) {
          const size_t place =
              AsIndex(at[0] + (reverse ? size - 1 - i : i) * view.steps[dim]);
          const double x = In().data[place];
          total = i == 0 ? x : add(total, x);
          Out().data[place] = total;
        }
      });
    };
    if (fn == "sum") return run([](double a, double b) { return a + b; });
    if (fn == "prod") return run([](double a, double b) { return a * b; });
    if (fn == "max") return run(Maximum);
    if (fn == "min") return run(Minimum);
    run([](double total, double x) {
      const double top = std::max(total, x);
      if (std::isinf(top)) return top;
      return top + std::log(std::exp(total - top) + std::exp(x - top));
    });
  }

  // A sort by the first operands, or the largest elements and their indices.
  void Sort() {
    const bool top = op_.kind == OpKind::kTopK;
    const size_t dim = AsIndex(op_.NumberOf(Attr::kDim));
    const size_t keys = AsIndex(top ? 1 : op_.NumberOf(Attr::kKeys, 1));
    const int64_t size = In().shape[dim];
    const View from{0, Strides(In().shape)};
    const View to{0, Strides(Out().shape)};
    std::vector<int64_t> order(AsIndex(size));
    ForLines<2>(dim, {from, to}, [&](const auto& at) {
      const auto read = [&](size_t operand, int64_t i) {
        return in_[operand]->data[AsIndex(at[0] + i * from.steps[dim])];
      };
      std::iota(order.begin(), order.end(), int64_t{0});
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
        for (size_t k = 0; k < keys; ++k) {
          const double x = read(k, a);
          const double y = read(k, b);
          if (x != y) return top ? x > y : x < y;
        }
        return false;
      });
      for (int64_t i = 0; i < Out().shape[dim]; ++i) {
        const int64_t row = order[AsIndex(i)];
        for (size_t k = 0; k < results_.size(); ++k) {
          results_[k].data[AsIndex(at[1] + i * to.steps[dim])] =
              top && k == 1 ? static_cast<double>(row) : read(k, row);
        }
      }
    });
  }

  // The slices of a gather's result or of a scatter's updates.
  struct Slices {
    Position vectors;  // the shape of the index vectors
    View at_vectors;   // where a vector begins in the indices
    View at_slices;    // where the slice of a vector begins
    View numbers;      // the number of a vector
    Position shape;    // of a slice
    View in_slices;    // its elements there
    View in_operand;   // its elements in the operand
    Position sizes;    // the slice in all dimensions of the operand
    std::vector<int64_t> batch_of;  // for each operand dimension, or -1
  };

  Slices SlicesOf(const Array& sliced, std::span<const int64_t> window,
                  std::span<const int64_t> removed) const {
    Slices out;
    const Array& indices = *in_[1];
    const Position strides = Strides(sliced.shape);
    const Position of_indices = Strides(indices.shape);
    const Position of_operand = Strides(In().shape);
    out.vectors.assign(indices.shape.begin(), indices.shape.end() - 1);
    out.at_vectors.steps.assign(of_indices.begin(), of_indices.end() - 1);
    out.numbers.steps = Strides(out.vectors);
    for (size_t d = 0; d < sliced.rank(); ++d) {
      if (HasDim(window, d)) {
        out.shape.push_back(sliced.shape[d]);
        out.in_slices.steps.push_back(strides[d]);
      } else {
        out.at_slices.steps.push_back(strides[d]);
      }
    }
    const auto batched = op_.Of(Attr::kOperandBatchDims);
    out.sizes.assign(In().rank(), 1);
    out.batch_of.assign(In().rank(), -1);
    for (size_t i = 0; i < batched.size(); ++i) {
      out.batch_of[AsIndex(batched[i])] = op_.Of(Attr::kIndicesBatchDims)[i];
    }
    size_t next = 0;
    for (size_t d = 0; d < In().rank(); ++d) {
      if (HasDim(removed, d) || out.batch_of[d] >= 0) continue;
      out.sizes[d] = out.shape[next++];
      out.in_operand.steps.push_back(of_operand[d]);
    }
    return out;
  }

  // Calls `visit` for each index vector: whether its slice is inside of the
  // operand, and the views of the slice's elements. A slice that is not inside
  // is moved inside.
  template <class Visit>
  void ForSlices(Slices slices, std::span<const int64_t> map,
                 const Visit& visit) const {
    const Position strides = Strides(In().shape);
    Position start(In().rank(), 0);
    ForOffsets<3>(
        slices.vectors, {slices.at_vectors, slices.at_slices, slices.numbers},
        [&](const auto& at) {
          std::ranges::fill(start, 0);
          for (size_t c = 0; c < map.size(); ++c) {
            start[AsIndex(map[c])] =
                static_cast<int64_t>(in_[1]->data[AsIndex(at[0]) + c]);
          }
          bool inside = true;
          slices.in_operand.first = 0;
          for (size_t d = 0; d < start.size(); ++d) {
            if (const int64_t dim = slices.batch_of[d]; dim >= 0) {
              start[d] = at[2] / slices.numbers.steps[AsIndex(dim)] %
                         slices.vectors[AsIndex(dim)];
            }
            const int64_t last = In().shape[d] - slices.sizes[d];
            inside = inside && start[d] >= 0 && start[d] <= last;
            slices.in_operand.first +=
                std::clamp<int64_t>(start[d], 0, last) * strides[d];
          }
          slices.in_slices.first = at[1];
          visit(inside, slices.in_slices, slices.in_operand);
        });
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
    const Slices slices = SlicesOf(Out(), op_.Of(Attr::kOffsetDims),
                                   op_.Of(Attr::kCollapsedDims));
    ForSlices(slices, op_.Of(Attr::kStartIndexMap),
              [&](bool inside, const View& to, const View& from) {
                const bool fills = !inside && op_.mode == IndexMode::kFill;
                ForOffsets<2>(slices.shape, {to, from}, [&](const auto& at) {
                  Out().data[AsIndex(at[0])] =
                      fills ? FillOf() : In().data[AsIndex(at[1])];
                });
              });
  }

  void Scatter() {
    Out().data = In().data;
    const Slices slices = SlicesOf(*in_[2], op_.Of(Attr::kUpdateWindowDims),
                                   op_.Of(Attr::kInsertedDims));
    const auto run = [&](const auto& combine) {
      ForSlices(slices, op_.Of(Attr::kOperandDims),
                [&](bool inside, const View& from, const View& to) {
                  if (!inside && op_.mode != IndexMode::kClip) return;
                  ForOffsets<2>(slices.shape, {from, to}, [&](const auto& at) {
                    double& x = Out().data[AsIndex(at[1])];
                    x = combine(x, in_[2]->data[AsIndex(at[0])]);
                  });
                });
    };
    const std::string& fn = op_.word;
    if (fn == "add") return run([](double x, double y) { return x + y; });
    if (fn == "sub") return run([](double x, double y) { return x - y; });
    if (fn == "mul") return run([](double x, double y) { return x * y; });
    if (fn == "max") return run(Maximum);
    if (fn == "min") return run(Minimum);
    run([](double /*x*/, double y) { return y; });
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
    // x op(A) = b is op(A)^T x^T = b^T.
    const bool turned = transpose == left;
    const bool forward = lower != turned;
    View matrix{0, Strides(In().shape)};
    const int64_t row = matrix.steps[turned ? rank - 1 : rank - 2];
    const int64_t column = matrix.steps[turned ? rank - 2 : rank - 1];
    matrix.steps[rank - 1] = matrix.steps[rank - 2] = 0;
    const View right{0, Strides(Out().shape)};
    const int64_t step = right.steps[solved];
    Position lines = Out().shape;
    lines[solved] = n == 0 ? 0 : 1;
    ForOffsets<2>(lines, {matrix, right}, [&](const auto& at) {
      const auto coefficient = [&](int64_t i, int64_t k) {
        return In().data[AsIndex(at[0] + i * row + k * column)];
      };
      for (int64_t turn = 0; turn < n; ++turn) {
        const int64_t i = forward ? turn : n - 1 - turn;
        double x = in_[1]->data[AsIndex(at[1] + i * step)];
        for (int64_t k = forward ? 0 : i + 1; k < (forward ? i : n); ++k) {
          x -= coefficient(i, k) * Out().data[AsIndex(at[1] + k * step)];
        }
        Out().data[AsIndex(at[1] + i * step)] =
            unit ? x : x / coefficient(i, i);
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
