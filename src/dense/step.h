// Runs a model's step on one device: every op of a graph over unsharded
// tensors, in plain loops. It is the reference for sharded runs.
//
// A run over complex numbers checks the gradients by the complex-step method.
// For parameters p, a direction v and a tiny number h, the derivative of the
// loss along v is the imaginary part of loss(p + ihv), divided by h. It is
// exact to roundoff.
#ifndef SHARDC_DENSE_STEP_H_
#define SHARDC_DENSE_STEP_H_

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

#include "model/step_graph.h"
#include "source/size.h"

namespace shardc::dense {

// The row-major array of one value of a step's graph. Its dimensions are in the
// order of the value's dimension labels. Integers are also stored as T.
template <typename T>
struct StepTensor {
  std::vector<int64_t> shape = {};
  std::vector<T> data = {};
  // For the result of a dropout: 0 for each dropped element and 1/(1 - rate)
  // for each other element. If empty, no element is dropped.
  std::vector<double> factors = {};
};

// The arrays of all values of a graph, indexed by ValueId.
template <typename T>
using StepValues = std::vector<StepTensor<T>>;

std::vector<int64_t> ShapeOf(const step::Graph& graph, const step::Sizes& sizes,
                             step::ValueId value);

// Runs the ops of the forward pass, the backward pass and the optimizer, up to
// and including `last`. Stores the results in `values`. The caller must have
// stored the arrays of the inputs in `values`, and StepTensor::factors of the
// results of dropouts. T is float, double or std::complex<double>.
template <typename T>
void RunStep(const step::Graph& graph, const step::Sizes& sizes,
             step::Phase last, StepValues<T>& values);

// Declares what all ops of the dense reference use: the arrays of a run's
// values, and loops over dimension labels. In a loop, each array has its own
// strides.

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

// The functions of the dense reference that run an op; the table in step.cc
// lists them. Each function sets the elements of `out`, which already has the
// shape of the result and holds zeros. If a function runs several kinds of ops,
// a comment after it lists them.

template <typename T>
void RunEinsum(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunAdd(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunScale(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunFn(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunReduction(StepContext<T>& c, const step::Op& op,
                  StepTensor<T>& out);  // runs kSum and kMax
template <typename T>
void RunCopy(StepContext<T>& c, const step::Op& op,
             StepTensor<T>& out);  // runs kIdentity and kBroadcast
template <typename T>
void RunDropout(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunAdamW(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunReshape(StepContext<T>& c, const step::Op& op,
                StepTensor<T>& out);  // runs kSplit and kMerge
template <typename T>
void RunSlice(StepContext<T>& c, const step::Op& op,
              StepTensor<T>& out);  // runs kPart, kIndex, kUnpart and kUnindex
template <typename T>
void RunRename(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunHeads(StepContext<T>& c, const step::Op& op,
              StepTensor<T>& out);  // kRepeat, kGroupSum
template <typename T>
void RunRoll(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunRows(StepContext<T>& c, const step::Op& op,
             StepTensor<T>& out);  // runs kLookup and kScatter
template <typename T>
void RunPick(StepContext<T>& c, const step::Op& op,
             StepTensor<T>& out);  // runs kPick and kPlace
template <typename T>
void RunCacheWrite(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunDistance(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunRope(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunMask(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);
template <typename T>
void RunChoice(StepContext<T>& c, const step::Op& op,
               StepTensor<T>& out);  // runs kTopK and kTopGroups
template <typename T>
void RunSlots(StepContext<T>& c, const step::Op& op, StepTensor<T>& out);

}  // namespace shardc::dense

// Instantiates the function of an op for each number type of a run.
#define SHARDC_DENSE_OP(NAME)                                                  \
  template void NAME<float>(StepContext<float>&, const step::Op&,              \
                            StepTensor<float>&);                               \
  template void NAME<double>(StepContext<double>&, const step::Op&,            \
                             StepTensor<double>&);                             \
  template void NAME<std::complex<double>>(StepContext<std::complex<double>>&, \
                                           const step::Op&,                    \
                                           StepTensor<std::complex<double>>&);

#endif  // SHARDC_DENSE_STEP_H_
