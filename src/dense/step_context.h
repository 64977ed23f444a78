// Declares what all ops of the dense reference use: the arrays of a run's
// values, and loops over dimension labels. In a loop, each array has its own
// strides.
#ifndef SHARDC_DENSE_STEP_CONTEXT_H_
#define SHARDC_DENSE_STEP_CONTEXT_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "dense/step.h"
#include "model/step_graph.h"
#include "source/index.h"

namespace shardc::dense {

using Labels = std::vector<step::LabelId>;
using Strides = std::vector<int64_t>;

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};

// Returns the real part of a number.
template <typename T>
typename RealOf<T>::Type Real(const T& x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else {
    return x.real();
  }
}

inline int64_t Product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1},
                         std::multiplies<>());
}

// Returns the strides of a row-major array, in elements.
inline Strides RowMajor(const std::vector<int64_t>& shape) {
  Strides out(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i) {
    out[i - 2] = out[i - 1] * shape[i - 1];
  }
  return out;
}

// Returns the index of a label in a list; the size of the list if it is absent.
inline size_t Place(const Labels& labels, step::LabelId label) {
  return AsIndex(std::find(labels.begin(), labels.end(), label) -
                 labels.begin());
}

// Visits all indices of `shape`, with the last dimension as the fastest. For
// each index, computes the offset of the element in each array, in elements.
class Odometer {
 public:
  Odometer(std::vector<int64_t> shape, std::vector<Strides> strides)
      : shape_(std::move(shape)),
        strides_(std::move(strides)),
        at_(shape_.size(), 0),
        offset_(strides_.size(), 0) {}

  int64_t offset(size_t array) const { return offset_[array]; }
  int64_t at(size_t dim) const { return at_[dim]; }
  void Next() {
    for (size_t d = shape_.size(); d > 0;) {
      --d;
      ++at_[d];
      for (size_t a = 0; a < offset_.size(); ++a) {
        offset_[a] += strides_[a][d];
      }
      if (at_[d] < shape_[d]) return;
      for (size_t a = 0; a < offset_.size(); ++a) {
        offset_[a] -= strides_[a][d] * shape_[d];
      }
      at_[d] = 0;
    }
  }

 private:
  std::vector<int64_t> shape_;
  std::vector<Strides> strides_;
  std::vector<int64_t> at_, offset_;
};

// The graph, the sizes of its labels, and the values of one run. T is float,
// double or std::complex<double>.
template <typename T>
struct StepContext {
  const step::Graph& graph;
  const step::Sizes& sizes;
  StepValues<T>& values;

  StepTensor<T>& Of(step::ValueId value) { return values[AsIndex(value)]; }
  const Labels& LabelsOf(step::ValueId value) const {
    return graph.values[AsIndex(value)].labels;
  }
  int64_t SizeOf(step::LabelId label) const { return sizes[AsIndex(label)]; }
  std::vector<int64_t> Sized(const Labels& labels) const {
    std::vector<int64_t> out;
    for (const step::LabelId label : labels) out.push_back(SizeOf(label));
    return out;
  }

  // Returns the stride of a value's array along each of `labels`; 0 for a label
  // that the value does not have.
  Strides By(step::ValueId value, const Labels& labels) {
    const Labels& own = LabelsOf(value);
    const Strides strides = RowMajor(Of(value).shape);
    Strides out;
    for (const step::LabelId label : labels) {
      const size_t at = Place(own, label);
      out.push_back(at < own.size() ? strides[at] : 0);
    }
    return out;
  }

  // Calls `apply(result, operand)` for each element of the op's result.
  // `operand` is the element of `in` with the same index along each label.
  template <typename Apply>
  void Each(const step::Op& op, step::ValueId in, Apply apply) {
    const Labels& labels = LabelsOf(op.out);
    const StepTensor<T>& x = Of(in);
    StepTensor<T>& out = Of(op.out);
    Odometer at(out.shape, {By(in, labels)});
    for (T& to : out.data) {
      apply(to, x.data[AsIndex(at.offset(0))]);
      at.Next();
    }
  }

  // Returns the factor of a scale op: its constant times powers of label sizes,
  // such as 1/sqrt(head_dim).
  double Factor(const step::Scale& scale) const {
    double factor = scale.constant;
    for (const auto& [label, power] : scale.powers) {
      factor *= std::pow(static_cast<double>(SizeOf(label)), power);
    }
    return factor;
  }

  // Returns an element of a value that holds integers. `offset` is its index in
  // the array.
  int64_t Integer(step::ValueId value, int64_t offset) {
    return std::llround(
        static_cast<double>(Real(Of(value).data[AsIndex(offset)])));
  }
};

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_STEP_CONTEXT_H_
