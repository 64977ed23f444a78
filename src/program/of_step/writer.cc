// Each function computes the shape of its result and appends the op. Ops that
// would change nothing are left out: a reshape to the same shape, a transpose
// in the same order, or a slice of all elements. For example:
//
//   Slice(x [8, 64], dim 1, 0, 32)  ->  slice, start [0, 0], limit [8, 32]
#include "program/of_step/writer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "program/runnable.h"
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

}  // namespace shardc::program
