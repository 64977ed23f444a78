// Functions that the kernels of a step's ops share: the number type in which an
// op computes, and the strides of loops over dimension labels.
#ifndef SHARDC_EXEC_STEP_KERNEL_H_
#define SHARDC_EXEC_STEP_KERNEL_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "exec/attention/rotary.h"
#include "exec/step/run.h"
#include "model/manifest.h"
#include "model/step_graph.h"
#include "source/size.h"

namespace shardc::exec {

inline constexpr size_t kMostArrays = 8;
using Offsets = std::array<int64_t, kMostArrays>;

// Calls `body` for each element of `extent`, with the offset of that element in
// each array. `strides[i]` has the stride of array i along each dimension, and
// `base[i]` is the offset at which array i begins. The index of the last
// dimension changes fastest.
template <class F>
void ForNest(const Shape& extent, const std::vector<Shape>& strides,
             Offsets base, const F& body) {
  const size_t rank = extent.size(), arrays = strides.size();
  for (int64_t size : extent) {
    if (size == 0) return;
  }
  if (rank == 0) {
    body(base);
    return;
  }
  Shape at(rank, 0);
  const size_t last = rank - 1;
  while (true) {
    Offsets offsets = base;
    for (int64_t i = 0; i < extent[last]; ++i) {
      body(offsets);
      for (size_t a = 0; a < arrays; ++a) offsets[a] += strides[a][last];
    }
    size_t d = last;
    while (true) {
      if (d == 0) return;
      --d;
      for (size_t a = 0; a < arrays; ++a) base[a] += strides[a][d];
      if (++at[d] < extent[d]) break;
      for (size_t a = 0; a < arrays; ++a) base[a] -= strides[a][d] * extent[d];
      at[d] = 0;
    }
  }
}

using Labels = std::vector<step::LabelId>;
inline constexpr size_t kNoDim = static_cast<size_t>(-1);

size_t DimOf(const Labels& labels, step::LabelId label);
// Returns the strides of a row-major array, in elements.
Shape StridesOf(const Shape& shape);
// Returns an array's stride, in elements, along each of the labels `loop`. The
// stride is 0 for labels that the array lacks.
Shape StridesAlong(const Labels& loop, const Labels& labels,
                   const Shape& shape);

// The elements of a buffer, as numbers of type T. They are copied only if the
// buffer stores them as another type.
template <class T>
class Reals {
 public:
  explicit Reals(const Buffer& buffer) {
    if constexpr (std::is_same_v<T, int32_t>) {
      data_ = buffer.integers.data();
      return;
    } else if constexpr (std::is_same_v<T, double>) {
      if (buffer.dtype == Dtype::kF64) {
        data_ = buffer.wide.data();
        return;
      }
    } else {
      if (buffer.IsReal() && buffer.dtype != Dtype::kF64) {
        data_ = buffer.real.data();
        return;
      }
    }
    own_.reserve(AsIndex(buffer.Elements()));
    if (buffer.dtype == Dtype::kF64) {
      for (double x : buffer.wide) own_.push_back(static_cast<T>(x));
    } else if (buffer.IsReal()) {
      for (float x : buffer.real) own_.push_back(static_cast<T>(x));
    } else {
      for (int32_t x : buffer.integers) own_.push_back(static_cast<T>(x));
    }
    data_ = own_.data();
  }
  Reals(const Reals&) = delete;
  Reals& operator=(const Reals&) = delete;

  const T& operator[](int64_t i) const { return data_[i]; }
  const T* data() const { return data_; }

 private:
  const T* data_ = nullptr;
  std::vector<T> own_;
};

template <class T>
T* RealData(Buffer& buffer) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return buffer.integers.data();
  } else if constexpr (std::is_same_v<T, double>) {
    return buffer.wide.data();
  } else {
    return buffer.real.data();
  }
}

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

// Declares the kernels of a step's ops. A table in run.cc has the kernel of
// each op. A kernel reads the parts of its operands that one device holds, and
// writes the result to `local.out`, whose elements are zeros before the call.

namespace shardc::exec {

// If a kernel runs several kinds of ops, a comment lists their names in OpKind.
void RunEinsum(const LocalOp& local);
void RunElementwise(const LocalOp& local);  // kAdd, kScale, kFn, kBroadcast
void RunReduction(const LocalOp& local);    // kSum, kMax
void RunReshape(const LocalOp& local);      // kSplit to kIdentity
void RunHeads(const LocalOp& local);        // kRepeat, kGroupSum
void RunIndexed(const LocalOp& local);      // kLookup, kScatter, kPick, kPlace
void RunRope(const LocalOp& local);
void RunMask(const LocalOp& local);
void RunTopGroups(const LocalOp& local);
void RunTopK(const LocalOp& local);
void RunSlots(const LocalOp& local);
void RunDropout(const LocalOp& local);
void RunCacheWrite(const LocalOp& local);
void RunAdam(const LocalOp& local);
void RunRoll(const LocalOp& local);
void RunDistance(const LocalOp& local);

// The numbers with which a step's ops depend on the positions of tokens.

// Returns the rotary frequencies of a head of `size` elements, for sequences of
// up to `tokens` tokens.
RopeFrequencies RopeTable(const step::Rope& rope, int64_t size, int64_t tokens);

// Returns the ALiBi slope of a head: the number by which a score falls for each
// token between key and query.
//
// If the number n of heads is a power of two, the slopes are 2^(-8/n),
// 2^(-16/n) and so on. Otherwise let m be the largest power of two below n. The
// first m heads have the slopes of a model with m heads. The remaining heads
// have the first, third, fifth and so on of the slopes of a model with 2m
// heads.
double AlibiSlope(int64_t heads, int64_t head);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_KERNEL_H_
