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
#include "exec/step/kernel.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "exec/kernels/kernels.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

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

void Multiply(const std::vector<double>& a, const std::vector<double>& b,
              std::vector<double>& c, int64_t batch, int64_t rows,
              int64_t columns, int64_t inner) {
  for (int64_t i = 0; i < batch; ++i) {
    const double* const of_b = b.data() + i * inner * columns;
    for (int64_t m = 0; m < rows; ++m) {
      const double* const of_a = a.data() + (i * rows + m) * inner;
      double* const to = c.data() + (i * rows + m) * columns;
      for (int64_t k = 0; k < inner; ++k) {
        const double factor = of_a[k];
        const double* const from = of_b + k * columns;
        for (int64_t n = 0; n < columns; ++n) to[n] += factor * from[n];
      }
    }
  }
}

void Multiply(const std::vector<float>& a, const std::vector<float>& b,
              std::vector<float>& c, int64_t batch, int64_t rows,
              int64_t columns, int64_t inner) {
  const MatrixSizes sizes{AsIndex(rows), AsIndex(columns), AsIndex(inner)};
  const std::span<const float> all_a(a), all_b(b);
  for (size_t i = 0; i < AsIndex(batch); ++i) {
    const size_t of_a = sizes.rows * sizes.inner;
    const size_t of_b = sizes.inner * sizes.columns;
    const size_t of_c = sizes.rows * sizes.columns;
    MultiplyInto(all_a.subspan(i * of_a, of_a), all_b.subspan(i * of_b, of_b),
                 sizes, std::span(c).subspan(i * of_c, of_c));
  }
}

template <class T>
void Run(const LocalOp& local) {
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
    Run<double>(local);
  } else {
    Run<float>(local);
  }
}

}  // namespace shardc::exec
