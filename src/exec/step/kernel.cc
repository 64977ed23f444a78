// Kernels that compute: einsums as products of matrices, and loop nests for
// elementwise ops, reductions, dropout and the optimizer's update. The strides
// of all loops are computed here too.
#include "exec/step/kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "exec/kernels/kernels.h"
#include "exec/machine/random.h"
#include "source/size.h"

namespace shardc::exec {

size_t DimOf(const Labels& labels, step::LabelId label) {
  const auto found = std::find(labels.begin(), labels.end(), label);
  return found == labels.end() ? kNoDim : AsIndex(found - labels.begin());
}

Shape StridesOf(const Shape& shape) {
  Shape out(shape.size(), 1);
  for (size_t d = shape.size(); d > 1; --d) {
    out[d - 2] = out[d - 1] * shape[d - 1];
  }
  return out;
}

Shape StridesAlong(const Labels& loop, const Labels& labels,
                   const Shape& shape) {
  const Shape strides = StridesOf(shape);
  Shape out;
  out.reserve(loop.size());
  for (step::LabelId label : loop) {
    const size_t dim = DimOf(labels, label);
    out.push_back(dim == kNoDim ? 0 : strides[dim]);
  }
  return out;
}

namespace {

// Computes an einsum of two operands as a product of matrices. The dimension
// labels are divided into four kinds. Batch labels are in both operands and in
// the result. Row labels are in the first operand and the result, and column
// labels are in the second operand and the result. Inner labels are not in the
// result: the products are summed over them.
//
// The operands are copied to [batch, rows, inner] and [batch, inner, columns].
// The innermost loop runs over columns, and every element is a sum in the order
// of the inner labels. For example:
//
//   y [b t d], w [f d] -> [b t f]   rows b t, columns f, inner d

struct Split {
  Labels batch, rows, columns, inner;
};

int64_t SizeOf(const Labels& labels, const LocalOp& local) {
  int64_t out = 1;
  for (step::LabelId label : labels) {
    for (const Part& part : local.in) {
      const size_t dim = DimOf(*part.labels, label);
      if (dim == kNoDim) continue;
      out *= part.buffer->shape[dim];
      break;
    }
  }
  return out;
}

Shape ExtentOf(const Labels& labels, const LocalOp& local) {
  Shape out;
  for (step::LabelId label : labels) out.push_back(SizeOf({label}, local));
  return out;
}

Labels Joined(const Labels& a, const Labels& b, const Labels& c) {
  Labels out = a;
  out.insert(out.end(), b.begin(), b.end());
  out.insert(out.end(), c.begin(), c.end());
  return out;
}

Split SplitLabels(const Labels& a, const Labels& b, const Labels& out) {
  Split split;
  for (step::LabelId label : out) {
    const bool in_a = DimOf(a, label) != kNoDim;
    const bool in_b = DimOf(b, label) != kNoDim;
    (in_a && in_b ? split.batch
     : in_a       ? split.rows
                  : split.columns)
        .push_back(label);
  }
  for (const Labels* labels : {&a, &b}) {
    for (step::LabelId label : *labels) {
      if (DimOf(out, label) == kNoDim && DimOf(split.inner, label) == kNoDim) {
        split.inner.push_back(label);
      }
    }
  }
  return split;
}

// Returns the elements of `part`, the part of an operand that this device
// holds. They are transposed to the order of the labels `order`, and repeated
// along labels that the part lacks.
template <class T>
std::vector<T> Ordered(const Part& part, const Labels& order,
                       const LocalOp& local) {
  const Reals<T> from(*part.buffer);
  const Shape extent = ExtentOf(order, local);
  std::vector<T> out(AsIndex(ElementsOf(extent)));
  size_t next = 0;
  if (order == *part.labels) {
    for (T& x : out) x = from[static_cast<int64_t>(next++)];
    return out;
  }
  ForNest(extent, {StridesAlong(order, *part.labels, part.buffer->shape)}, {},
          [&](const Offsets& at) { out[next++] = from[at[0]]; });
  return out;
}

template <class T>
void Multiply(const std::vector<T>& a, const std::vector<T>& b,
              std::vector<T>& c, int64_t batch, int64_t rows, int64_t columns,
              int64_t inner) {
  const MatrixSizes sizes{AsIndex(rows), AsIndex(columns), AsIndex(inner)};
  const std::span<const T> all_a(a), all_b(b);
  for (size_t i = 0; i < AsIndex(batch); ++i) {
    const size_t of_a = sizes.rows * sizes.inner;
    const size_t of_b = sizes.inner * sizes.columns;
    const size_t of_c = sizes.rows * sizes.columns;
    MultiplyInto(all_a.subspan(i * of_a, of_a), all_b.subspan(i * of_b, of_b),
                 sizes, std::span(c).subspan(i * of_c, of_c));
  }
}

template <class T>
void RunProducts(const LocalOp& local) {
  const Part *a = &local.in[0], *b = &local.in[1];
  Split split = SplitLabels(*a->labels, *b->labels, *local.labels);
  // The innermost loop runs over columns, so the longer dimension becomes the
  // columns.
  if (SizeOf(split.rows, local) > SizeOf(split.columns, local)) {
    std::swap(a, b);
    std::swap(split.rows, split.columns);
  }
  const std::vector<T> left =
      Ordered<T>(*a, Joined(split.batch, split.rows, split.inner), local);
  const std::vector<T> right =
      Ordered<T>(*b, Joined(split.batch, split.inner, split.columns), local);
  const Labels order = Joined(split.batch, split.rows, split.columns);
  const Shape extent = ExtentOf(order, local);
  std::vector<T> result(AsIndex(ElementsOf(extent)), T{0});
  Multiply(left, right, result, SizeOf(split.batch, local),
           SizeOf(split.rows, local), SizeOf(split.columns, local),
           SizeOf(split.inner, local));
  T* const out = RealData<T>(*local.out);
  size_t next = 0;
  ForNest(extent, {StridesAlong(order, *local.labels, local.out->shape)}, {},
          [&](const Offsets& at) { out[at[0]] = result[next++]; });
}

}  // namespace

void RunEinsum(const LocalOp& local) {
  if (local.out->dtype == Dtype::kF64) {
    RunProducts<double>(local);
  } else {
    RunProducts<float>(local);
  }
}

namespace {

// Kernels of elementwise ops, reductions, dropout and the optimizer's update. A
// kernel is a nest of loops with one loop for each dimension label. The labels
// are those of the result, or those of the operand if the kernel sums. Each
// array has a stride for each label. If the array lacks the label, the stride
// is 0, so that the array is broadcast or summed along it. For example:
//
//   add a [b, t, d], bias [d] -> [b, t, d]: bias has strides 0, 0, 1

// Defines the table of the scalar functions that a step may apply to each
// element, for float32 and float64. The function `f_d` is the derivative of
// `f`, and `f_dd` is the second derivative. For example:
//
//   silu 2   ->  1.7616

// A function whose arguments are the operands x[0], x[1], ... and the op's
// constant. FindStepFunction returns null if no function has the name.
template <class T>
using StepFunction = T (*)(const T* x, T constant);
template <class T>
StepFunction<T> FindStepFunction(std::string_view name);

template <class T>
struct Row {
  std::string_view name;
  StepFunction<T> function;
};

template <class T>
T Sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}
template <class T>
T SwishSlope(T x, T c) {
  const T s = Sigmoid(c * x);
  return s + c * x * s * (T{1} - s);
}
template <class T>
constexpr T kRootTwoOverPi = static_cast<T>(0.79788456080286535588);
template <class T>
constexpr T kCubic = static_cast<T>(0.044715);
template <class T>
T GeluArgument(T x) {
  return kRootTwoOverPi<T> * (x + kCubic<T> * x * x * x);
}
template <class T>
T GeluTanhSlope(T x) {
  const T t = std::tanh(GeluArgument(x));
  return (T{1} + t) / T{2} + x / T{2} * (T{1} - t * t) * kRootTwoOverPi<T> *
                                 (T{1} + T{3} * kCubic<T> * x * x);
}
template <class T>
T GeluSlope(T x) {
  constexpr T kRootHalf = static_cast<T>(0.70710678118654752440);
  constexpr T kRootTwoPi = static_cast<T>(2.50662827463100050242);
  return (T{1} + std::erf(x * kRootHalf)) / T{2} +
         x * std::exp(-x * x / T{2}) / kRootTwoPi;
}
template <class T>
T Gelu(T x) {
  constexpr T kRootHalf = static_cast<T>(0.70710678118654752440);
  return x / T{2} * (T{1} + std::erf(x * kRootHalf));
}
template <class T>
T Square(T x) {
  return x * x;
}

template <class T>
constexpr Row<T> kRows[] = {
    {"recip", [](const T* x, T) { return T{1} / *x; }},
    {"recip_d", [](const T* x, T) { return -T{1} / (*x * *x); }},
    {"recip_dd", [](const T* x, T) { return T{2} / (*x * *x * *x); }},
    {"rsqrt", [](const T* x, T c) { return T{1} / std::sqrt(*x + c); }},
    {"rsqrt_d",
     [](const T* x, T c) { return T(-0.5) / ((*x + c) * std::sqrt(*x + c)); }},
    {"sqrt", [](const T* x, T) { return T(std::sqrt(*x)); }},
    {"sqrt_d", [](const T* x, T) { return T(0.5) / std::sqrt(*x); }},
    {"exp", [](const T* x, T) { return T(std::exp(*x)); }},
    {"log", [](const T* x, T) { return T(std::log(*x)); }},
    {"tanh", [](const T* x, T) { return T(std::tanh(*x)); }},
    {"tanh_d", [](const T* x, T) { return T{1} - Square(T(std::tanh(*x))); }},
    {"cap", [](const T* x, T c) { return c * T(std::tanh(*x / c)); }},
    {"cap_d",
     [](const T* x, T c) { return T{1} - Square(T(std::tanh(*x / c))); }},
    {"sigmoid", [](const T* x, T) { return Sigmoid(*x); }},
    {"sigmoid_d",
     [](const T* x, T) { return Sigmoid(*x) * (T{1} - Sigmoid(*x)); }},
    {"silu", [](const T* x, T) { return *x * Sigmoid(*x); }},
    {"silu_d", [](const T* x, T) { return SwishSlope(*x, T{1}); }},
    {"swish", [](const T* x, T c) { return *x * Sigmoid(c * *x); }},
    {"swish_d", [](const T* x, T c) { return SwishSlope(*x, c); }},
    {"gelu", [](const T* x, T) { return Gelu(*x); }},
    {"gelu_d", [](const T* x, T) { return GeluSlope(*x); }},
    {"gelu_tanh",
     [](const T* x, T) {
       return *x / T{2} * (T{1} + std::tanh(GeluArgument(*x)));
     }},
    {"gelu_tanh_d", [](const T* x, T) { return GeluTanhSlope(*x); }},
    {"relu", [](const T* x, T) { return std::max(*x, T{0}); }},
    {"step", [](const T* x, T) { return *x > T{0} ? T{1} : T{0}; }},
    {"relu2", [](const T* x, T) { return Square(std::max(*x, T{0})); }},
    {"relu2_d", [](const T* x, T) { return T{2} * std::max(*x, T{0}); }},
    {"shift", [](const T* x, T c) { return *x + c; }},
    {"one", [](const T*, T) { return T{1}; }},
    {"at_most", [](const T* x, T c) { return std::min(*x, c); }},
    {"below", [](const T* x, T c) { return *x < c ? T{1} : T{0}; }},
    {"clamp", [](const T* x, T c) { return std::clamp(*x, -c, c); }},
    {"inside", [](const T* x, T c) { return *x > -c && *x < c ? T{1} : T{0}; }},
    {"clip", [](const T* x, T c) { return std::min(T{1}, c / *x); }},
    {"floor", [](const T* x, T) { return T(std::floor(*x)); }},
    {"max2", [](const T* x, T) { return std::max(x[0], x[1]); }},
};

template <class T>
StepFunction<T> FindStepFunction(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kRows<T>), std::end(kRows<T>),
                   [&](const Row<T>& row) { return row.name == name; });
  return found == std::end(kRows<T>) ? nullptr : found->function;
}

using step::LabelId;
using step::OpKind;

template <class T>
void Elementwise(const LocalOp& local) {
  const step::Op& op = *local.op;
  std::vector<Shape> strides = {AlongOut(*local.labels, local)};
  std::vector<std::unique_ptr<Reals<T>>> in;
  for (const Part& part : local.in) {
    strides.push_back(Along(*local.labels, part));
    in.push_back(std::make_unique<Reals<T>>(*part.buffer));
  }
  T* const out = RealData<T>(*local.out);
  const size_t operands = in.size();
  if (op.kind == OpKind::kAdd) {
    for (size_t i = 0; i < operands; ++i) {
      ForNest(local.out->shape, {strides[0], strides[i + 1]}, {},
              [&](const Offsets& at) { out[at[0]] += (*in[i])[at[1]]; });
    }
    return;
  }
  if (op.kind == OpKind::kFn) {
    const auto& function = step::As<step::FnAttributes>(op);
    const StepFunction<T> fn = FindStepFunction<T>(function.fn);
    const T constant = static_cast<T>(function.constant);
    std::array<T, kMostArrays> x{};
    ForNest(local.out->shape, strides, {}, [&](const Offsets& at) {
      for (size_t i = 0; i < operands; ++i) x[i] = (*in[i])[at[i + 1]];
      out[at[0]] = fn(x.data(), constant);
    });
    return;
  }
  const auto* const scaled = std::get_if<step::ScaleAttributes>(&op.attributes);
  const T scale =
      scaled == nullptr ? T{1} : static_cast<T>(ScaleOf(local, scaled->factor));
  ForNest(local.out->shape, strides, {},
          [&](const Offsets& at) { out[at[0]] = (*in[0])[at[1]] * scale; });
}

template <class T>
void Reduction(const LocalOp& local) {
  const Part& part = local.in[0];
  const Reals<T> in(*part.buffer);
  T* const out = RealData<T>(*local.out);
  const bool max = local.op->kind == OpKind::kMax;
  if (max) {
    std::fill_n(out, local.out->Elements(),
                -std::numeric_limits<T>::infinity());
  }
  ForNest(part.buffer->shape,
          {AlongOut(*part.labels, local), Along(*part.labels, part)}, {},
          [&](const Offsets& at) {
            T& to = out[at[0]];
            to = max ? std::max(to, in[at[1]]) : to + in[at[1]];
          });
}

template <class T>
void Dropout(const LocalOp& local) {
  const auto& drop = step::As<step::DropoutAttributes>(*local.op);
  const Part& x = local.in[0];
  Shape global, base;
  for (LabelId label : *x.labels) global.push_back(SizeOf(local, label));
  const Shape strides = StridesOf(global);
  int64_t first = 0;
  for (size_t d = 0; d < global.size(); ++d) first += x.start[d] * strides[d];
  const double rate = drop.rate;
  const Random random = Random(static_cast<uint64_t>(drop.key)).Split("drop");
  const Reals<T> in(*x.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(x.buffer->shape, {StridesOf(x.buffer->shape), strides}, {0, first},
          [&](const Offsets& at) {
            const bool keeps =
                random.Uniform(static_cast<uint64_t>(at[1])) >= rate;
            out[at[0]] = keeps ? in[at[0]] / static_cast<T>(1 - rate) : T{0};
          });
}

template <class T>
void Adam(const LocalOp& local) {
  const auto& update = step::As<step::AdamWAttributes>(*local.op);
  const step::Adam& adam = local.graph->adam;
  const Reals<T> p(*local.in[0].buffer), g(*local.in[1].buffer),
      m(*local.in[2].buffer), v(*local.in[3].buffer), clip(*local.in[4].buffer);
  T* const out = RealData<T>(*local.out);
  const T beta1 = static_cast<T>(adam.beta1);
  const T beta2 = static_cast<T>(adam.beta2);
  const T correct1 =
      static_cast<T>(1 - std::pow(adam.beta1, static_cast<double>(adam.step)));
  const T correct2 =
      static_cast<T>(1 - std::pow(adam.beta2, static_cast<double>(adam.step)));
  const T rate = static_cast<T>(adam.rate), decay = T(update.decay);
  const T epsilon = static_cast<T>(adam.epsilon);
  for (int64_t i = 0; i < local.out->Elements(); ++i) {
    const T gradient = g[i] * clip[0];
    const T first = beta1 * m[i] + (T{1} - beta1) * gradient;
    const T second = beta2 * v[i] + (T{1} - beta2) * gradient * gradient;
    const T move = first / correct1 / (std::sqrt(second / correct2) + epsilon);
    switch (update.result) {
      case step::AdamWResult::kParameter:
        out[i] = p[i] - rate * (move + decay * p[i]);
        break;
      case step::AdamWResult::kFirstMoment:
        out[i] = first;
        break;
      case step::AdamWResult::kSecondMoment:
        out[i] = second;
        break;
    }
  }
}

}  // namespace

SHARDC_KERNEL(RunElementwise, Elementwise)
SHARDC_KERNEL(RunReduction, Reduction)
SHARDC_KERNEL(RunDropout, Dropout)
SHARDC_KERNEL(RunAdam, Adam)

}  // namespace shardc::exec
