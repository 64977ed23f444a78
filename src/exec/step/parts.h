// Functions with which kernels read the part of a value that a device holds:
// its strides by dimension label, and its elements as numbers of one type.
#ifndef SHARDC_EXEC_STEP_PARTS_H_
#define SHARDC_EXEC_STEP_PARTS_H_

#include <cstdint>
#include <type_traits>
#include <vector>

#include "exec/step/local_op.h"
#include "source/index.h"

namespace shardc::exec {

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

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_PARTS_H_
