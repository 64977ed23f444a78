// Each function computes the shape of its result and appends the op. Ops that
// would change nothing are left out: a reshape to the same shape, a transpose
// in the same order, or a slice of all elements. For example:
//
//   Slice(x [8, 64], dim 1, 0, 32)  ->  slice, start [0, 0], limit [8, 32]
#include "emit/step_programs/writer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "program/read.h"
#include "source/size.h"

namespace shardc::program {
namespace {

Numbers Filled(size_t count, int64_t number) { return Numbers(count, number); }

bool IsFloat(Dtype dtype) {
  return dtype != Dtype::kBool && IntegerBits(dtype) == 0;
}

}  // namespace

ValueId ProgramWriter::NewValue(Shape shape, Dtype dtype) {
  Value& value = program.values.emplace_back();
  value.shape = std::move(shape);
  value.dtype = dtype;
  return static_cast<ValueId>(program.values.size() - 1);
}

ValueId ProgramWriter::Append(OpKind kind, std::vector<ValueId> in, Shape shape,
                              Dtype dtype,
                              std::vector<std::pair<Attr, Numbers>> numbers,
                              std::string_view word) {
  const ValueId out = NewValue(std::move(shape), dtype);
  Op& op = program.ops.emplace_back();
  op.kind = kind;
  op.phase = phase;
  op.at = at;
  op.in = std::move(in);
  op.out = {out};
  op.word = word;
  op.numbers = std::move(numbers);
  return out;
}

ValueId ProgramWriter::AddInput(InputKind kind, std::string name, Shape shape,
                                Dtype dtype) {
  const ValueId out = NewValue(std::move(shape), dtype);
  program.inputs.push_back({out, kind, std::move(name)});
  return out;
}

ValueId ProgramWriter::Constant(const std::vector<double>& numbers, Shape shape,
                                Dtype dtype) {
  const auto [known, is_new] =
      constants_.try_emplace({numbers, {shape, dtype}}, ValueId{0});
  if (!is_new) return known->second;
  const ValueId out = Append(OpKind::kConst, {}, std::move(shape), dtype);
  known->second = out;
  if (IsFloat(dtype)) {
    program.values[out].floats = numbers;
  } else {
    for (const double number : numbers) {
      program.values[out].integers.push_back(std::llround(number));
    }
  }
  return out;
}

ValueId ProgramWriter::Iota(Shape shape, size_t dim) {
  return Append(OpKind::kIota, {}, std::move(shape), Dtype::kI32,
                {{Attr::kDim, {static_cast<int64_t>(dim)}}});
}

ValueId ProgramWriter::Drawn(Shape shape, Dtype dtype) {
  return Append(OpKind::kRandom, {}, std::move(shape), dtype);
}

ValueId ProgramWriter::Elementwise(std::string_view fn, std::vector<ValueId> in,
                                   Dtype dtype) {
  Shape shape;
  for (const ValueId id : in) {
    const Shape& own = ShapeOf(id);
    if (own.empty()) continue;
    if (shape.empty()) shape = Filled(own.size(), 1);
    for (size_t d = 0; d < own.size(); ++d) {
      if (own[d] != 1) shape[d] = own[d];
    }
  }
  return Append(OpKind::kMap, std::move(in), std::move(shape), dtype, {}, fn);
}

ValueId ProgramWriter::Map(std::string_view fn, std::vector<ValueId> in) {
  const Dtype dtype = DtypeOf(in.back());
  return Elementwise(fn, std::move(in), dtype);
}

ValueId ProgramWriter::Test(std::string_view fn, std::vector<ValueId> in) {
  return Elementwise(fn, std::move(in), Dtype::kBool);
}

ValueId ProgramWriter::Converted(ValueId x, Dtype dtype) {
  return DtypeOf(x) == dtype ? x : Elementwise("convert", {x}, dtype);
}

ValueId ProgramWriter::Broadcast(ValueId x, Shape shape, Numbers dims) {
  return Append(OpKind::kBroadcast, {x}, std::move(shape), DtypeOf(x),
                {{Attr::kDims, std::move(dims)}});
}

ValueId ProgramWriter::Reshaped(ValueId x, Shape shape) {
  if (ShapeOf(x) == shape) return x;
  return Append(OpKind::kReshape, {x}, std::move(shape), DtypeOf(x));
}

ValueId ProgramWriter::Transposed(ValueId x, Numbers perm) {
  if (std::ranges::is_sorted(perm)) return x;
  Shape shape;
  for (const int64_t d : perm) shape.push_back(ShapeOf(x)[AsIndex(d)]);
  return Append(OpKind::kTranspose, {x}, std::move(shape), DtypeOf(x),
                {{Attr::kPerm, std::move(perm)}});
}

ValueId ProgramWriter::Reduce(std::string_view fn, ValueId x, Numbers axes) {
  if (axes.empty()) return x;
  Shape shape;
  for (size_t d = 0; d < ShapeOf(x).size(); ++d) {
    if (!HasDim(axes, d)) shape.push_back(ShapeOf(x)[d]);
  }
  return Append(OpKind::kReduce, {x}, std::move(shape), DtypeOf(x),
                {{Attr::kAxes, std::move(axes)}}, fn);
}

ValueId ProgramWriter::Slice(ValueId x, size_t dim, int64_t start,
                             int64_t limit) {
  Shape shape = ShapeOf(x);
  if (start == 0 && limit == shape[dim]) return x;
  Numbers starts = Filled(shape.size(), 0);
  Numbers limits = shape;
  starts[dim] = start;
  limits[dim] = limit;
  shape[dim] = limit - start;
  return Append(
      OpKind::kSlice, {x}, std::move(shape), DtypeOf(x),
      {{Attr::kStart, std::move(starts)}, {Attr::kLimit, std::move(limits)}});
}

ValueId ProgramWriter::Padded(ValueId x, size_t dim, int64_t low,
                              int64_t high) {
  if (low == 0 && high == 0) return x;
  Shape shape = ShapeOf(x);
  Numbers before = Filled(shape.size(), 0);
  Numbers after = before;
  Numbers between = before;
  before[dim] = low;
  after[dim] = high;
  shape[dim] += low + high;
  return Append(OpKind::kPad, {x, Number(0, x)}, std::move(shape), DtypeOf(x),
                {{Attr::kLow, std::move(before)},
                 {Attr::kHigh, std::move(after)},
                 {Attr::kInterior, std::move(between)}});
}

ValueId ProgramWriter::Concat(std::vector<ValueId> in, size_t dim) {
  if (in.size() == 1) return in[0];
  Shape shape = ShapeOf(in[0]);
  shape[dim] = 0;
  for (const ValueId id : in) shape[dim] += ShapeOf(id)[dim];
  const Dtype dtype = DtypeOf(in[0]);
  return Append(OpKind::kConcat, std::move(in), std::move(shape), dtype,
                {{Attr::kDim, {static_cast<int64_t>(dim)}}});
}

ValueId ProgramWriter::CumulativeSum(ValueId x, size_t dim) {
  return Append(OpKind::kCumulative, {x}, ShapeOf(x), DtypeOf(x),
                {{Attr::kDim, {static_cast<int64_t>(dim)}}}, "sum");
}

ProgramWriter::Top ProgramWriter::TopK(ValueId x, size_t dim, int64_t k) {
  Shape shape = ShapeOf(x);
  shape[dim] = k;
  Top out;
  out.values =
      Append(OpKind::kTopK, {x}, shape, DtypeOf(x),
             {{Attr::kDim, {static_cast<int64_t>(dim)}}, {Attr::kK, {k}}});
  out.indices = NewValue(std::move(shape), Dtype::kI32);
  Last().out.push_back(out.indices);
  return out;
}

std::vector<std::optional<ValueId>> ProgramWriter::Prune() {
  std::vector<bool> used(program.values.size(), false);
  for (const Input& input : program.inputs) used[input.value] = true;
  for (const ValueId id : program.outputs) used[id] = true;
  for (auto op = program.ops.rbegin(); op != program.ops.rend(); ++op) {
    const bool needed =
        std::ranges::any_of(op->out, [&](ValueId id) { return used[id]; });
    if (!needed) {
      op->out.clear();
      continue;
    }
    for (const ValueId id : op->in) used[id] = true;
    for (const ValueId id : op->out) used[id] = true;
  }
  std::erase_if(program.ops, [](const Op& op) { return op.out.empty(); });
  std::vector<std::optional<ValueId>> numbers(used.size());
  std::vector<Value> values;
  for (size_t id = 0; id < used.size(); ++id) {
    if (!used[id]) continue;
    numbers[id] = static_cast<ValueId>(values.size());
    values.push_back(std::move(program.values[id]));
  }
  program.values = std::move(values);
  const auto renumber = [&](std::vector<ValueId>& list) {
    for (ValueId& id : list) id = *numbers[id];
  };
  for (Input& input : program.inputs) input.value = *numbers[input.value];
  for (Op& op : program.ops) {
    renumber(op.in);
    renumber(op.out);
  }
  renumber(program.outputs);
  constants_.clear();
  return numbers;
}

namespace {

// The functions of a step and their derivatives as maps. For example, silu is
// the product of x and its logistic function:
//
//   s = map logistic(x); silu = map mul(x, s)

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
