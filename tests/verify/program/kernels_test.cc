// The kernels of a program's ops on a device against those of the dense
// reference: two implementations of the same definitions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dense/program/run.h"
#include "exec/machine/random.h"
#include "exec/program/run.h"
#include "program/read.h"
#include "source/size.h"

namespace shardc::verify {
namespace {

using program::Attr;
using program::Numbers;
using program::Op;
using program::OpKind;
using program::Program;
using program::ValueId;

struct Operand {
  Shape shape;
  std::optional<Dtype> dtype = Dtype::kF32;
};

Op OpOf(OpKind kind, std::string word = {},
        std::vector<std::pair<Attr, Numbers>> numbers = {}) {
  Op out;
  out.kind = kind;
  out.word = std::move(word);
  out.numbers = std::move(numbers);
  return out;
}

// Returns a program of one op.
Program ProgramOf(Op op, const std::vector<Operand>& in,
                  const std::vector<Operand>& out) {
  Program made;
  for (const auto* const list : {&in, &out}) {
    for (const Operand& one : *list) {
      auto& ids = list == &in ? op.in : op.out;
      ids.push_back(static_cast<ValueId>(made.values.size()));
      made.values.push_back({one.shape, one.dtype, {}, {}});
    }
  }
  made.ops.push_back(std::move(op));
  return made;
}

// Numbers that the dtype holds: small integers, also negative ones, or numbers
// in which a function such as acos has a value and others have none.
std::vector<double> Drawn(const program::Value& value, uint64_t seed) {
  const exec::Random random(seed);
  const int bits = value.dtype ? program::IntegerBits(*value.dtype) : 0;
  std::vector<double> out(AsIndex(exec::ElementsOf(value.shape)));
  for (size_t i = 0; i < out.size(); ++i) {
    const double u = random.Uniform(i);
    out[i] = value.dtype == Dtype::kBool ? std::floor(2 * u)
             : bits > 0                  ? std::floor(12 * u) - 6
             : bits < 0                  ? std::floor(6 * u)
                                         : 4 * u - 2;
  }
  return out;
}

// Checks that both kernels have the same results, but for the order of sums.
void CheckSame(const Program& made) {
  const Op& op = made.ops[0];
  std::vector<dense::Array> arrays;
  std::vector<exec::Buffer> buffers;
  for (const ValueId id : op.in) {
    const Shape& shape = made.ShapeOf(id);
    arrays.push_back({shape, Drawn(made.values[id], 7 + id)});
    buffers.push_back(exec::Buffer::Zeros(shape, Dtype::kF64));
    buffers.back().wide = arrays.back().data;
  }
  std::vector<const dense::Array*> in;
  for (const dense::Array& one : arrays) in.push_back(&one);
  std::vector<dense::Array> want;
  std::vector<exec::Buffer> got;
  exec::ProgramOp local{.program = &made, .op = &op, .in = {}, .out = &got};
  for (const exec::Buffer& one : buffers) {
    local.in.push_back({&one, Shape(one.shape.size(), 0)});
  }
  for (const ValueId id : op.out) {
    want.push_back(dense::Array::Zeros(made.ShapeOf(id)));
    got.push_back(exec::Buffer::Zeros(made.ShapeOf(id), Dtype::kF64));
  }
  dense::RunProgramOp(made, op, in, {}, want);
  exec::RunProgramOp(local);
  for (size_t i = 0; i < want.size(); ++i) {
    REQUIRE(want[i].data.size() == got[i].wide.size());
    for (size_t k = 0; k < want[i].data.size(); ++k) {
      const double a = want[i].data[k];
      const double b = got[i].wide[k];
      const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                        std::fabs(a - b) <= 1e-12 * (1 + std::fabs(a));
      CHECK_MESSAGE(same, "element " << k << ": " << a << " and " << b);
      if (!same) return;
    }
  }
}

constexpr std::string_view kOfOne =
    "abs acos acosh asin asinh atan atanh cbrt ceil clz convert cos cosh erf "
    "erfc exp exp2 expm1 floor integer_pow is_finite lgamma log log1p logistic "
    "neg not population_count reduce_precision round rsqrt sign sin sinh sqrt "
    "square tan tanh";
constexpr std::string_view kOfTwo =
    "add and atan2 div eq eq_to ge gt le le_to lt lt_to max min mul ne or pow "
    "rem shift_left shift_right_arithmetic shift_right_logical sub xor";

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

TEST_CASE("functions of elements have the same results in both kernels") {
  // The operands have all elements of the result, repeat some, or are one.
  const std::vector<Shape> shapes = {{2, 3, 4}, {2, 1, 4}, {1, 3, 1}, {}};
  for (const Dtype dtype :
       {Dtype::kF32, Dtype::kI32, Dtype::kU8, Dtype::kBool}) {
    for (size_t count = 1; count <= 3; ++count) {
      const auto words = count == 1   ? WordsOf(kOfOne)
                         : count == 2 ? WordsOf(kOfTwo)
                                      : WordsOf("clamp select");
      for (const std::string& word : words) {
        // No double has what remains of a power above 2^53.
        if (word == "pow" && program::IntegerBits(dtype) != 0) continue;
        for (const Shape& first : shapes) {
          for (const Shape& second : shapes) {
            Op op = OpOf(OpKind::kMap, word);
            if (word == "integer_pow") op.numbers = {{Attr::kExponent, {-3}}};
            if (word == "round") {
              const int64_t method = first.empty() ? 0 : 1;
              op.numbers = {{Attr::kMethod, {method}}};
            }
            const Shape whole = {2, 3, 4};
            // A function of one operand has its shape.
            std::vector<Operand> in = {{count == 1 ? whole : first, dtype}};
            if (count > 1) in.push_back({second, dtype});
            if (count > 2) in.push_back({whole, dtype});
            const Program made = ProgramOf(op, in, {{whole, dtype}});
            if (program::RunFault(made) ||
                program::IsOpaque(made, made.ops[0])) {
              continue;
            }
            INFO(word << " of " << DtypeName(dtype));
            CheckSame(made);
          }
        }
      }
    }
  }
}

TEST_CASE("products have the same results in both kernels") {
  const Numbers none;
  struct Case {
    Shape left, right, out;
    Numbers lc, rc, lb, rb;
  };
  const Case cases[] = {
      {{5, 7}, {7, 9}, {5, 9}, {1}, {0}, none, none},
      {{7, 30}, {9, 7}, {30, 9}, {0}, {1}, none, none},
      {{3, 5, 7}, {3, 9, 7}, {3, 5, 9}, {2}, {2}, {0}, {0}},
      {{5, 3, 7, 2}, {2, 7, 3, 9}, {3, 5, 9}, {3, 2}, {0, 1}, {1}, {2}},
      {{4}, {4}, {}, {0}, {0}, none, none},
      {{2, 3}, {4}, {2, 3, 4}, none, none, none, none},
      {{0, 3}, {3, 4}, {0, 4}, {1}, {0}, none, none},
      {{2, 0}, {0, 4}, {2, 4}, {1}, {0}, none, none},
  };
  for (const Case& one : cases) {
    Op op = OpOf(OpKind::kDot, {},
                 {{Attr::kLhsContract, one.lc},
                  {Attr::kRhsContract, one.rc},
                  {Attr::kLhsBatch, one.lb},
                  {Attr::kRhsBatch, one.rb}});
    const Program made =
        ProgramOf(std::move(op), {{one.left}, {one.right}}, {{one.out}});
    REQUIRE(program::ShapeFault(made, made.ops[0]) == "");
    CheckSame(made);
  }
}

TEST_CASE("reductions have the same results in both kernels") {
  for (const std::string& word :
       WordsOf("sum prod max min and or xor argmax argmin")) {
    for (const Numbers& axes :
         {Numbers{0}, Numbers{1}, Numbers{2}, Numbers{0, 2}, Numbers{1, 2}}) {
      const bool index = word.starts_with("arg");
      if (index && axes.size() > 1) continue;
      const bool bits = word == "and" || word == "or" || word == "xor";
      const Dtype dtype = bits ? Dtype::kBool : Dtype::kF32;
      Op op = OpOf(OpKind::kReduce, word, {{Attr::kAxes, axes}});
      Shape out;
      const Shape in = {3, 4, 5};
      for (size_t d = 0; d < in.size(); ++d) {
        if (!program::HasDim(axes, d)) out.push_back(in[d]);
      }
      INFO(word);
      CheckSame(ProgramOf(std::move(op), {{in, dtype}},
                          {{out, index ? Dtype::kI32 : dtype}}));
    }
  }
}

}  // namespace
}  // namespace shardc::verify
