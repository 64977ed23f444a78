// Implements the vectorised loops of kernels.h other than attention: exp,
// reductions for the collectives, a product of matrices, and rotary embedding.
// All of them except exp compute the same bits on every instruction set
// (target). Elements that do not fill a vector are copied to a padded vector.
// For example, 10 floats on AVX2 are a full vector of 8 and a padded copy of
// the last 2.
//
// tests/exec/kernels/elementwise_kernels_test.cc compares the loops with plain
// loops. On demand, it checks exp for all float32 values.

#include <cmath>

#include "exec/kernels/arithmetic.h"
#include "exec/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/elementwise_simd.cc"
// foreach_target.h must precede highway.h. It includes this file once more for
// each instruction set.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/kernels/kernel_math_simd-inl.h"
#include "floats/targets_simd.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

// Calls `whole(const In*, Out*)` for every full vector of x. Copies the
// remaining elements, pads them to a vector and calls `whole` for it.
template <class In, class Out, class F>
HWY_INLINE void Map(const In* x, Out* out, size_t count, const F& whole) {
  const size_t n = hn::Lanes(DF());
  size_t i = 0;
  for (; i + n <= count; i += n) whole(x + i, out + i);
  if (i == count) return;
  alignas(64) In from[64] = {};
  alignas(64) Out to[64];
  for (size_t j = i; j < count; ++j) from[j - i] = x[j];
  whole(from, to);
  for (size_t j = i; j < count; ++j) out[j] = to[j - i];
}

struct ExpOp {
  HWY_INLINE void operator()(const float* x, float* out) const {
    hn::StoreU(ExpV(hn::LoadU(DF(), x)), DF(), out);
  }
};
struct ExpNonPositiveOp {
  HWY_INLINE void operator()(const float* x, float* out) const {
    hn::StoreU(ExpNonPositiveV(hn::LoadU(DF(), x)), DF(), out);
  }
};

struct AddOp {
  HWY_INLINE VF operator()(VF x, VF y) const { return hn::Add(y, x); }
};
struct MaxOp {
  HWY_INLINE VF operator()(VF x, VF y) const {
    const VF larger = hn::IfThenElse(hn::Gt(x, y), x, y);
    return hn::IfThenElse(hn::IsNaN(x), x, larger);
  }
};

template <class Op>
HWY_INLINE void Combine(const float* x, size_t count, float* into) {
  const DF df;
  const size_t n = hn::Lanes(df);
  size_t i = 0;
  for (; i + n <= count; i += n) {
    const VF y = hn::LoadU(df, into + i);
    hn::StoreU(Op()(hn::LoadU(df, x + i), y), df, into + i);
  }
  if (i < count) {
    const size_t rest = count - i;
    const VF y = LoadFirst<F32Element>(into + i, rest);
    StoreFirst(Op()(LoadFirst<F32Element>(x + i, rest), y), into + i, rest);
  }
}

void ExpAll(const float* x, float* out, size_t n) { Map(x, out, n, ExpOp()); }
void ExpNonPositiveAll(const float* x, float* out, size_t n) {
  Map(x, out, n, ExpNonPositiveOp());
}
void AddTo(const float* x, size_t n, float* into) {
  Combine<AddOp>(x, n, into);
}
void MaxTo(const float* x, size_t n, float* into) {
  Combine<MaxOp>(x, n, into);
}

// Computes out = a * x + b * y. Does not read y if b is 0.
void MixRows(float a, const float* x, float b, const float* y, size_t count,
             float* out) {
  const DF df;
  const size_t n = hn::Lanes(df);
  const VF va = hn::Set(df, a);
  const VF vb = hn::Set(df, b);
  size_t i = 0;
  for (; i + n <= count; i += n) {
    VF v = hn::Mul(va, hn::LoadU(df, x + i));
    if (b != 0) v = hn::Add(v, hn::Mul(vb, hn::LoadU(df, y + i)));
    hn::StoreU(v, df, out + i);
  }
  for (; i < count; ++i) out[i] = b != 0 ? a * x[i] + b * y[i] : a * x[i];
}

// Adds the product of four rows of `a` and the strip `b` to four rows of
// `into`. The strip is two vectors wide. The sums stay in registers during the
// loop over the inner dimension.
template <class T>
HWY_INLINE void MultiplyTile(const T* a, size_t inner, const T* b, T* into,
                             size_t stride) {
  const hn::ScalableTag<T> d;
  using V = hn::VFromD<hn::ScalableTag<T>>;
  const size_t n = hn::Lanes(d);
  T *r0 = into, *r1 = r0 + stride, *r2 = r1 + stride, *r3 = r2 + stride;
  V c00 = hn::LoadU(d, r0), c01 = hn::LoadU(d, r0 + n);
  V c10 = hn::LoadU(d, r1), c11 = hn::LoadU(d, r1 + n);
  V c20 = hn::LoadU(d, r2), c21 = hn::LoadU(d, r2 + n);
  V c30 = hn::LoadU(d, r3), c31 = hn::LoadU(d, r3 + n);
  for (size_t k = 0; k < inner; ++k, b += 2 * n) {
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + n);
    const V a0 = hn::Set(d, a[k]), a1 = hn::Set(d, a[inner + k]);
    c00 = hn::Add(c00, hn::Mul(a0, b0));
    c01 = hn::Add(c01, hn::Mul(a0, b1));
    c10 = hn::Add(c10, hn::Mul(a1, b0));
    c11 = hn::Add(c11, hn::Mul(a1, b1));
    const V a2 = hn::Set(d, a[2 * inner + k]);
    const V a3 = hn::Set(d, a[3 * inner + k]);
    c20 = hn::Add(c20, hn::Mul(a2, b0));
    c21 = hn::Add(c21, hn::Mul(a2, b1));
    c30 = hn::Add(c30, hn::Mul(a3, b0));
    c31 = hn::Add(c31, hn::Mul(a3, b1));
  }
  hn::StoreU(c00, d, r0);
  hn::StoreU(c01, d, r0 + n);
  hn::StoreU(c10, d, r1);
  hn::StoreU(c11, d, r1 + n);
  hn::StoreU(c20, d, r2);
  hn::StoreU(c21, d, r2 + n);
  hn::StoreU(c30, d, r3);
  hn::StoreU(c31, d, r3 + n);
}

// Like MultiplyTile, but for one row of `a` and a strip of any width.
template <class T>
HWY_INLINE void MultiplyRow(const T* a, size_t inner, const T* b, size_t width,
                            T* into) {
  for (size_t k = 0; k < inner; ++k) {
    for (size_t j = 0; j < width; ++j) into[j] += a[k] * b[k * width + j];
  }
}

// Adds the matmul of a and b to `into`. `b` is processed in strips,
// which are two vectors of columns wide. Each strip is first copied to `strip`,
// where its rows are contiguous. `strip` has room for `inner` rows.
template <class T>
HWY_INLINE void MultiplyAll(const T* a, const T* b, size_t rows, size_t columns,
                            size_t inner, T* strip, T* into) {
  const size_t most = 2 * hn::Lanes(hn::ScalableTag<T>());
  for (size_t at = 0; at < columns; at += most) {
    const size_t width = columns - at < most ? columns - at : most;
    for (size_t k = 0; k < inner; ++k) {
      for (size_t j = 0; j < width; ++j) {
        strip[k * width + j] = b[k * columns + at + j];
      }
    }
    size_t row = 0;
    for (; width == most && row + 4 <= rows; row += 4) {
      MultiplyTile(a + row * inner, inner, strip, into + row * columns + at,
                   columns);
    }
    for (; row < rows; ++row) {
      MultiplyRow(a + row * inner, inner, strip, width,
                  into + row * columns + at);
    }
  }
}
void MultiplyFloats(const float* a, const float* b, size_t rows, size_t columns,
                    size_t inner, float* strip, float* into) {
  MultiplyAll(a, b, rows, columns, inner, strip, into);
}
void MultiplyDoubles(const double* a, const double* b, size_t rows,
                     size_t columns, size_t inner, double* strip,
                     double* into) {
  MultiplyAll(a, b, rows, columns, inner, strip, into);
}
// The floats of a strip, which has no more doubles.
size_t StripWidth() { return 2 * hn::Lanes(hn::ScalableTag<float>()); }

void RotateHalves(float* row, const float* cos, const float* sin, size_t half) {
  const DF df;
  const size_t n = hn::Lanes(df);
  size_t i = 0;
  for (; i + n <= half; i += n) {
    const VF a = hn::LoadU(df, row + i);
    const VF b = hn::LoadU(df, row + half + i);
    const VF c = hn::LoadU(df, cos + i);
    const VF s = hn::LoadU(df, sin + i);
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), df, row + i);
    hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), df, row + half + i);
  }
  for (; i < half; ++i) {
    const float a = row[i];
    const float b = row[half + i];
    row[i] = a * cos[i] - b * sin[i];
    row[half + i] = b * cos[i] + a * sin[i];
  }
}

void RotatePairs(float* row, const float* cos, const float* sin, size_t half) {
  for (size_t i = 0; i < half; ++i) {
    const float a = row[2 * i];
    const float b = row[2 * i + 1];
    row[2 * i] = a * cos[i] - b * sin[i];
    row[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc::exec {

SIMD_EXPORT(ExpAll);
SIMD_EXPORT(ExpNonPositiveAll);
SIMD_EXPORT(AddTo);
SIMD_EXPORT(MaxTo);
SIMD_EXPORT(RotateHalves);
SIMD_EXPORT(RotatePairs);
SIMD_EXPORT(MixRows);
SIMD_EXPORT(MultiplyFloats);
SIMD_EXPORT(MultiplyDoubles);
SIMD_EXPORT(StripWidth);

void Exp(std::span<const float> x, std::span<float> out) {
  SIMD_DISPATCH(ExpAll)(x.data(), out.data(), x.size());
}
void ExpNonPositive(std::span<const float> x, std::span<float> out) {
  SIMD_DISPATCH(ExpNonPositiveAll)(x.data(), out.data(), x.size());
}
void AddInto(std::span<const float> x, std::span<float> into) {
  SIMD_DISPATCH(AddTo)(x.data(), x.size(), into.data());
}
void MaxInto(std::span<const float> x, std::span<float> into) {
  SIMD_DISPATCH(MaxTo)(x.data(), x.size(), into.data());
}
void Mix(float a, std::span<const float> x, float b, std::span<const float> y,
         std::span<float> out) {
  SIMD_DISPATCH(MixRows)
  (a, x.data(), b, y.data(), x.size(), out.data());
}
void MultiplyInto(std::span<const float> a, std::span<const float> b,
                  const MatrixSizes& sizes, std::span<float> into) {
  std::vector<float> strip(SIMD_DISPATCH(StripWidth)() * sizes.inner);
  SIMD_DISPATCH(MultiplyFloats)
  (a.data(), b.data(), sizes.rows, sizes.columns, sizes.inner, strip.data(),
   into.data());
}
void MultiplyInto(std::span<const double> a, std::span<const double> b,
                  const MatrixSizes& sizes, std::span<double> into) {
  std::vector<double> strip(SIMD_DISPATCH(StripWidth)() * sizes.inner);
  SIMD_DISPATCH(MultiplyDoubles)
  (a.data(), b.data(), sizes.rows, sizes.columns, sizes.inner, strip.data(),
   into.data());
}
void Rotate(std::span<float> row, std::span<const float> cos,
            std::span<const float> sin, bool interleaved) {
  if (interleaved) {
    SIMD_DISPATCH(RotatePairs)
    (row.data(), cos.data(), sin.data(), row.size() / 2);
  } else {
    SIMD_DISPATCH(RotateHalves)
    (row.data(), cos.data(), sin.data(), row.size() / 2);
  }
}

}  // namespace shardc::exec
#endif  // HWY_ONCE
