// The functions of a program's maps. A row of the tables below has a name and a
// loop that is compiled for its function. For example, `exp` of 1,000 elements
// is one call of the loop of `exp`, and not 1,000 searches for its name.
#include "exec/program/element_loop.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include "program/read.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

using program::Attr;

double Truth(bool x) { return x ? 1 : 0; }

// ---- loops

template <class F>
void LoopOfOne(const ElementLoop& loop, const F& function) {
  const auto [x, of_x] = loop.in[0];
  double* const out = loop.out.data();
  const size_t count = loop.out.size();
  if (of_x == 0) {
    std::fill_n(out, count, function(x[0]));
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = function(x[i]);
  }
}

template <class F>
void LoopOfTwo(const ElementLoop& loop, const F& function) {
  const auto [x, of_x] = loop.in[0];
  const auto [y, of_y] = loop.in[1];
  double* const out = loop.out.data();
  const size_t count = loop.out.size();
  // Most operands have all elements, and many have a single number next to
  // them.
  if (of_x == 1 && of_y == 1) {
    for (size_t i = 0; i < count; ++i) out[i] = function(x[i], y[i]);
  } else if (of_x == 1) {
    const double other = y[0];
    for (size_t i = 0; i < count; ++i) out[i] = function(x[i], other);
  } else {
    for (size_t i = 0; i < count; ++i) {
      out[i] = function(x[i * of_x], y[i * of_y]);
    }
  }
}

template <class F>
void LoopOfThree(const ElementLoop& loop, const F& function) {
  const auto [x, of_x] = loop.in[0];
  const auto [y, of_y] = loop.in[1];
  const auto [z, of_z] = loop.in[2];
  size_t i = 0;
  for (double& out : loop.out) {
    out = function(x[i * of_x], y[i * of_y], z[i * of_z]);
    ++i;
  }
}

// ---- functions of numbers

using Run = void (*)(const ElementLoop&);

template <class F>
void RunOne(const ElementLoop& loop) {
  LoopOfOne(loop, F());
}
template <class F>
void RunTwo(const ElementLoop& loop) {
  LoopOfTwo(loop, F());
}
// Return the loop of a function without state.
template <class F>
constexpr Run One(F /*function*/) {
  return &RunOne<F>;
}
template <class F>
constexpr Run Two(F /*function*/) {
  return &RunTwo<F>;
}

Run LoopNamed(std::string_view name) {
  static const std::unordered_map<std::string_view, Run> kTable = {
      {"abs", One([](double x) { return std::fabs(x); })},
      {"acos", One([](double x) { return std::acos(x); })},
      {"acosh", One([](double x) { return std::acosh(x); })},
      {"add", Two([](double x, double y) { return x + y; })},
      {"asin", One([](double x) { return std::asin(x); })},
      {"asinh", One([](double x) { return std::asinh(x); })},
      {"atan", One([](double x) { return std::atan(x); })},
      {"atan2", Two([](double x, double y) { return std::atan2(x, y); })},
      {"atanh", One([](double x) { return std::atanh(x); })},
      {"cbrt", One([](double x) { return std::cbrt(x); })},
      {"ceil", One([](double x) { return std::ceil(x); })},
      {"convert", One([](double x) { return x; })},
      {"cos", One([](double x) { return std::cos(x); })},
      {"cosh", One([](double x) { return std::cosh(x); })},
      {"div", Two([](double x, double y) { return x / y; })},
      {"eq", Two([](double x, double y) { return Truth(x == y); })},
      {"eq_to", Two([](double x, double y) { return Truth(x == y); })},
      {"erf", One([](double x) { return std::erf(x); })},
      {"erfc", One([](double x) { return std::erfc(x); })},
      {"exp", One([](double x) { return std::exp(x); })},
      {"exp2", One([](double x) { return std::exp2(x); })},
      {"expm1", One([](double x) { return std::expm1(x); })},
      {"floor", One([](double x) { return std::floor(x); })},
      {"ge", Two([](double x, double y) { return Truth(x >= y); })},
      {"gt", Two([](double x, double y) { return Truth(x > y); })},
      {"is_finite", One([](double x) { return Truth(x - x == 0); })},
      {"le", Two([](double x, double y) { return Truth(x <= y); })},
      {"le_to", Two([](double x, double y) { return Truth(x <= y); })},
      {"lgamma", One([](double x) { return std::lgamma(x); })},
      {"log", One([](double x) { return std::log(x); })},
      {"log1p", One([](double x) { return std::log1p(x); })},
      {"logistic", One([](double x) { return 1 / (1 + std::exp(-x)); })},
      {"lt", Two([](double x, double y) { return Truth(x < y); })},
      {"lt_to", Two([](double x, double y) { return Truth(x < y); })},
      {"max", Two([](double x, double y) { return Larger(x, y); })},
      {"min", Two([](double x, double y) { return Smaller(x, y); })},
      {"mul", Two([](double x, double y) { return x * y; })},
      {"ne", Two([](double x, double y) { return Truth(x != y); })},
      {"neg", One([](double x) { return -x; })},
      {"pow", Two([](double x, double y) { return std::pow(x, y); })},
      {"reduce_precision", One([](double x) { return x; })},
      {"rem", Two([](double x, double y) { return std::fmod(x, y); })},
      {"rsqrt", One([](double x) { return 1 / std::sqrt(x); })},
      {"sign", One([](double x) { return x > 0   ? 1.0
                                         : x < 0 ? -1.0
                                                 : x; })},
      {"sin", One([](double x) { return std::sin(x); })},
      {"sinh", One([](double x) { return std::sinh(x); })},
      {"sqrt", One([](double x) { return std::sqrt(x); })},
      {"square", One([](double x) { return x * x; })},
      {"sub", Two([](double x, double y) { return x - y; })},
      {"tan", One([](double x) { return std::tan(x); })},
      {"tanh", One([](double x) { return std::tanh(x); })},
  };
  const auto at = kTable.find(name);
  return at == kTable.end() ? nullptr : at->second;
}

// ---- functions of integers

uint64_t Word(double number) {
  return static_cast<uint64_t>(static_cast<int64_t>(number));
}

// A function of integers as arithmetic modulo 2^64, of which the result's dtype
// keeps the low bits. `own` and `other` are the operands, and `bits` those of
// the first one's dtype.
using OfWords = uint64_t (*)(int64_t own, int64_t other, int bits);

uint64_t Low(int64_t own, int bits) {
  return static_cast<uint64_t>(own) & ((uint64_t{1} << bits) - 1);
}
bool IsBeyond(int64_t shift, int bits) { return shift < 0 || shift >= bits; }

struct WordRow {
  std::string_view name;
  size_t operands;
  OfWords function;
};

constexpr WordRow kOfWords[] = {
    {"population_count", 1,
     [](int64_t own, int64_t /*other*/, int bits) {
       return static_cast<uint64_t>(__builtin_popcountll(Low(own, bits)));
     }},
    {"clz", 1,
     [](int64_t own, int64_t /*other*/, int bits) {
       const uint64_t low = Low(own, bits);
       int zeros = bits;
       while (zeros > 0 && low >> (bits - zeros) != 0) --zeros;
       return static_cast<uint64_t>(zeros);
     }},
    {"not", 1,
     [](int64_t own, int64_t /*other*/, int /*bits*/) {
       return ~static_cast<uint64_t>(own);
     }},
    {"and", 2,
     [](int64_t own, int64_t other, int /*bits*/) {
       return static_cast<uint64_t>(own) & static_cast<uint64_t>(other);
     }},
    {"or", 2,
     [](int64_t own, int64_t other, int /*bits*/) {
       return static_cast<uint64_t>(own) | static_cast<uint64_t>(other);
     }},
    {"xor", 2,
     [](int64_t own, int64_t other, int /*bits*/) {
       return static_cast<uint64_t>(own) ^ static_cast<uint64_t>(other);
     }},
    {"mul", 2,
     [](int64_t own, int64_t other, int /*bits*/) {
       int64_t product = 0;
       static_cast<void>(__builtin_mul_overflow(own, other, &product));
       return static_cast<uint64_t>(product);
     }},
    {"div", 2,
     [](int64_t own, int64_t other, int /*bits*/) {
       return static_cast<uint64_t>(other == 0 ? -1 : own / other);
     }},
    {"rem", 2,
     [](int64_t own, int64_t other, int /*bits*/) {
       return static_cast<uint64_t>(other == 0 ? own : own % other);
     }},
    {"shift_left", 2,
     [](int64_t own, int64_t other, int bits) {
       return IsBeyond(other, bits) ? 0 : Low(own, bits) << other;
     }},
    {"shift_right_logical", 2,
     [](int64_t own, int64_t other, int bits) {
       return IsBeyond(other, bits) ? 0 : Low(own, bits) >> other;
     }},
    {"shift_right_arithmetic", 2,
     [](int64_t own, int64_t other, int bits) {
       return static_cast<uint64_t>(own >>
                                    (IsBeyond(other, bits) ? 63 : other));
     }},
};

// Returns false if integers have no function of this name.
bool RanOnWords(const ElementLoop& loop, int bits) {
  const auto* const row = std::ranges::find_if(kOfWords, [&](const auto& one) {
    return one.name == loop.op.word && one.operands == loop.in.size();
  });
  if (row == std::end(kOfWords)) return false;
  const OfWords function = row->function;
  const auto of = [&](double own, double other) {
    return static_cast<double>(static_cast<int64_t>(
        function(static_cast<int64_t>(Word(own)),
                 static_cast<int64_t>(Word(other)), bits)));
  };
  if (loop.in.size() == 1) {
    LoopOfOne(loop, [&](double x) { return of(x, 0); });
  } else {
    LoopOfTwo(loop, of);
  }
  return true;
}

// ---- functions with attributes

void Select(const ElementLoop& loop) {
  if (loop.in.size() == 3) {
    return LoopOfThree(loop, [](double which, double x, double y) {
      return static_cast<int64_t>(which) > 0 ? y : x;
    });
  }
  const auto last = static_cast<int64_t>(loop.in.size()) - 2;
  for (size_t i = 0; i < loop.out.size(); ++i) {
    const auto which =
        static_cast<int64_t>(loop.in[0].data[i * loop.in[0].step]);
    const ElementColumn& from =
        loop.in[AsIndex(std::clamp<int64_t>(which, 0, last)) + 1];
    loop.out[i] = from.data[i * from.step];
  }
}

// Rounds to the nearest whole number: ties to the even one, or away from 0.
double Rounded(double x, bool even) {
  const double up = std::floor(std::fabs(x) + 0.5);
  const bool tie = up - std::fabs(x) == 0.5;
  const bool odd = std::fmod(up, 2) != 0;
  return std::copysign(even && tie && odd ? up - 1 : up, x);
}

}  // namespace

void RunElementLoop(const ElementLoop& loop) {
  const std::string_view fn = loop.op.word;
  const int bits = loop.dtype ? std::abs(program::IntegerBits(*loop.dtype)) : 0;
  if (fn == "select") return Select(loop);
  if (fn == "clamp") {
    return LoopOfThree(loop, [](double low, double x, double high) {
      return Smaller(Larger(x, low), high);
    });
  }
  if (fn == "integer_pow") {
    const auto exponent =
        static_cast<double>(loop.op.NumberOf(Attr::kExponent));
    return LoopOfOne(loop, [&](double x) { return std::pow(x, exponent); });
  }
  if (fn == "round") {
    const bool even = loop.op.NumberOf(Attr::kMethod) == 1;
    return LoopOfOne(loop, [&](double x) { return Rounded(x, even); });
  }
  if (bits > 0 && RanOnWords(loop, bits)) return;
  if (const Run run = LoopNamed(fn)) return run(loop);
  if (fn == "not") {
    return LoopOfOne(loop, [](double x) { return Truth(x == 0); });
  }
  if (fn == "and") {
    return LoopOfTwo(
        loop, [](double x, double y) { return Truth(x != 0 && y != 0); });
  }
  if (fn == "or") {
    return LoopOfTwo(
        loop, [](double x, double y) { return Truth(x != 0 || y != 0); });
  }
  if (fn == "xor") {
    return LoopOfTwo(
        loop, [](double x, double y) { return Truth((x != 0) != (y != 0)); });
  }
  RanOnWords(loop, 1);  // a boolean as a bit
}

}  // namespace shardc::exec
