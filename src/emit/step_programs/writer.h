// Appends ops to a traced program. Each function returns the op's result, whose
// shape follows from the operands:
//
//   ProgramWriter write;
//   const ValueId x = write.AddInput(InputKind::kData, "x", {8, 64},
//   Dtype::kF32); const ValueId half = write.Map("mul", {x, write.Number(0.5,
//   x)});
#ifndef SHARDC_PROGRAM_OF_STEP_WRITER_H_
#define SHARDC_PROGRAM_OF_STEP_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "program/program.h"

namespace shardc::program {

class ProgramWriter {
 public:
  Program program;
  // The phase and the line of the ops that are appended after they are set.
  Phase phase = Phase::kForward;
  Line at;

  const Shape& ShapeOf(ValueId x) const { return program.ShapeOf(x); }
  Dtype DtypeOf(ValueId x) const { return *program.values[x].dtype; }

  ValueId AddInput(InputKind kind, std::string name, Shape shape, Dtype dtype);
  // Number returns a scalar with the dtype of `like`, and NumberList a list.
  // Each constant is written once.
  ValueId Number(double number, ValueId like) {
    return Number(number, DtypeOf(like));
  }
  ValueId Number(double number, Dtype dtype) {
    return Constant({number}, {}, dtype);
  }
  ValueId NumberList(const std::vector<double>& numbers, Dtype dtype) {
    return Constant(numbers, {static_cast<int64_t>(numbers.size())}, dtype);
  }
  // Returns a value each of whose elements is its index in `dim`.
  ValueId Iota(Shape shape, size_t dim);
  ValueId Drawn(Shape shape, Dtype dtype);

  // The operands are scalars or have the same rank. A dimension of size 1 is
  // broadcast. The result has the dtype of the last operand.
  ValueId Map(std::string_view fn, std::vector<ValueId> in);
  // The result of Test() is boolean.
  ValueId Test(std::string_view fn, std::vector<ValueId> in);
  // Returns `yes` where the condition holds, and `no` elsewhere.
  ValueId Select(ValueId condition, ValueId yes, ValueId no) {
    return Map("select", {condition, no, yes});
  }
  ValueId Converted(ValueId x, Dtype dtype);

  ValueId Broadcast(ValueId x, Shape shape, Numbers dims);
  ValueId Reshaped(ValueId x, Shape shape);
  ValueId Transposed(ValueId x, Numbers perm);
  ValueId Reduce(std::string_view fn, ValueId x, Numbers axes);
  // Returns the range of indices [start, limit) of a dimension.
  ValueId Slice(ValueId x, size_t dim, int64_t start, int64_t limit);
  // Puts zeros before and after the elements of a dimension.
  ValueId Padded(ValueId x, size_t dim, int64_t low, int64_t high);
  ValueId Concat(std::vector<ValueId> in, size_t dim);
  ValueId CumulativeSum(ValueId x, size_t dim);
  struct Top {
    ValueId values = 0, indices = 0;
  };
  Top TopK(ValueId x, size_t dim, int64_t k);
  // Appends any op with one result.
  ValueId Append(OpKind kind, std::vector<ValueId> in, Shape shape, Dtype dtype,
                 std::vector<std::pair<Attr, Numbers>> numbers = {},
                 std::string_view word = {});
  // The op that was appended last, for its attributes that are no numbers.
  Op& Last() { return program.ops.back(); }

  // Removes the ops on which no output depends, and renumbers the values that
  // are left. Inputs stay. Returns the new number of each value, or nullopt if
  // the value was removed.
  std::vector<std::optional<ValueId>> Prune();

 private:
  ValueId NewValue(Shape shape, Dtype dtype);
  ValueId Constant(const std::vector<double>& numbers, Shape shape,
                   Dtype dtype);
  ValueId Elementwise(std::string_view fn, std::vector<ValueId> in,
                      Dtype dtype);

  std::map<std::pair<std::vector<double>, std::pair<Shape, Dtype>>, ValueId>
      constants_;
};

// Writes the functions of single elements that a step applies.

// Returns the function `fn` of each element of x, by its formula in
// step/op_def.h. `constant` is the number c of the formula. Returns nullopt if
// there is no such function.
std::optional<ValueId> WriteFunction(ProgramWriter& write, std::string_view fn,
                                     ValueId x, double constant);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_OF_STEP_WRITER_H_
