// Functions that the kernels of a step's ops share: the number type in which an
// op computes, and the strides of loops over dimension labels.
#ifndef SHARDC_EXEC_STEP_KERNEL_H_
#define SHARDC_EXEC_STEP_KERNEL_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "exec/step/local_op.h"
#include "exec/step/nest.h"
#include "exec/step/parts.h"
#include "source/index.h"

namespace shardc::exec {

// Returns the size, in the unsharded value, of the dimension with this label.
inline int64_t SizeOf(const LocalOp& local, step::LabelId label) {
  return (*local.sizes)[AsIndex(label)];
}

// Calls `f` with a number of the type in which the op computes: double if the
// result or an operand is F64, else float.
template <class F>
void InType(const LocalOp& local, const F& f) {
  bool wide = local.out->dtype == Dtype::kF64;
  for (const Part& part : local.in) {
    wide = wide || part.buffer->dtype == Dtype::kF64;
  }
  if (wide) {
    f(double{});
  } else {
    f(float{});
  }
}

// Return the strides, in elements, by which a loop over the labels `loop` moves
// through an operand or the result. They are 0 for labels that the array lacks.
inline Shape Along(const Labels& loop, const Part& part) {
  return StridesAlong(loop, *part.labels, part.buffer->shape);
}
inline Shape AlongOut(const Labels& loop, const LocalOp& local) {
  return StridesAlong(loop, *local.labels, local.out->shape);
}

// Returns the stride, in elements, of the dimension `label` in a row-major
// array with these labels and this shape. `labels` must contain `label`.
inline int64_t StrideOf(const Labels& labels, const Shape& shape,
                        step::LabelId label) {
  return StridesOf(shape)[DimOf(labels, label)];
}

// Returns the factor that `scale` describes: its constant times powers of the
// unsharded sizes of dimension labels.
inline double ScaleOf(const LocalOp& local, const step::Scale& scale) {
  double out = scale.constant;
  for (const auto& [label, power] : scale.powers) {
    out *= std::pow(static_cast<double>(SizeOf(local, label)), power);
  }
  return out;
}

// Calls `body` for each line along the label `along`. A line is the elements
// whose indices differ only in that label. `body` gets the offset of the line's
// first element in each array.
template <class F>
void ForLines(const Labels& loop, const Shape& extent, step::LabelId along,
              const std::vector<Shape>& strides, const F& body) {
  Shape lines = extent;
  lines[DimOf(loop, along)] = 1;
  ForNest(lines, strides, {}, body);
}

}  // namespace shardc::exec

// Defines the function NAME, which runs TEMPLATE<T>. T is the number type in
// which the op computes.
#define SHARDC_KERNEL(NAME, TEMPLATE)                                   \
  void NAME(const LocalOp& local) {                                     \
    InType(local, [&](auto type) { TEMPLATE<decltype(type)>(local); }); \
  }

#endif  // SHARDC_EXEC_STEP_KERNEL_H_
