// Implements the packing and the weights of bf16_tiles.h with the intrinsics of
// x86-64. The functions are compiled for processors with AVX512_BF16. On other
// processors, and in builds for other architectures, nothing calls them
// (floats/bf16_products.h).
//
// tests/exec/kernels/attention_kernels_test.cc compares the results with loops.
#include "exec/kernels/bf16_tiles.h"

#if defined(__x86_64__)

#include <cstring>
#include <limits>

#include "exec/kernels/intrinsics_simd-inl.h"

HWY_PUSH_ATTRIBUTES("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

namespace shardc::exec {
namespace {

inline __mmask32 FirstHalves(int64_t count) {
  if (count >= 32) return ~__mmask32{0};
  return count <= 0 ? 0 : (__mmask32{1} << count) - 1;
}

// Loads dims [dim, dim + 32) of a row. Rows and dims that do not exist are read
// as zeros.
inline __m512i LoadDims(const Bf16Rows& from, int64_t row, int64_t dim) {
  if (row >= from.rows) return _mm512_setzero_si512();
  return _mm512_maskz_loadu_epi16(FirstHalves(from.dim - dim),
                                  from.data + row * from.stride + dim);
}

// Interleaves two vectors of 16 numbers of 16 bits: even0, odd0, even1, ...
inline __m512i Interleave(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

// Transposes 16 x 16 numbers of 32 bits in place: first within squares of 4 x 4
// numbers, then the 4 x 4 arrangement of these squares.
inline void Transpose(__m512i* r) {
  __m512i t[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const __m512i a = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    const __m512i b = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    const __m512i c = _mm512_unpacklo_epi32(r[i + 2], r[i + 3]);
    const __m512i d = _mm512_unpackhi_epi32(r[i + 2], r[i + 3]);
    t[i] = _mm512_unpacklo_epi64(a, c);
    t[i + 1] = _mm512_unpackhi_epi64(a, c);
    t[i + 2] = _mm512_unpacklo_epi64(b, d);
    t[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88);
    const __m512i b = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xdd);
    const __m512i c = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xdd);
    r[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
}

// Returns e^x for x <= 0, with a relative error below 1e-6. It is 2^t with t =
// x log2(e), computed as 2^n * 2^r, where n is t rounded to an integer and r =
// t - n. Adding 1.5 * 2^23 + 127 to t leaves n + 127 in the low bits of the
// sum. 2^r is a minimax polynomial of relative error 2^-23. Results below
// 2^-126.5 are 0, and e^0 is 1.
inline __m512 ExpNonPositive(__m512 x) {
  const __m512 magic = _mm512_set1_ps(12582912.0f + 127.0f);
  const __m512 t = _mm512_max_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
                                 _mm512_set1_ps(-127.0f));
  const __m512 biased = _mm512_add_ps(t, magic);
  const __m512 r = _mm512_sub_ps(t, _mm512_sub_ps(biased, magic));
  __m512 p = _mm512_set1_ps(1.326472730e-3f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.671512991e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.550733581e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.402224243e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.931470037e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  const __m512i power = _mm512_slli_epi32(_mm512_castps_si512(biased), 23);
  return _mm512_mul_ps(p, _mm512_castsi512_ps(power));
}

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// The scores of 32 keys, as two vectors of 16.
struct TwoVectors {
  __m512 first, second;
};
// Loads scores [c, c + 32). Scores outside of [lo, hi) become minus infinity.
inline TwoVectors LoadScores(const Bf16Weights& row, int64_t c) {
  if (c >= row.lo && c + 32 <= row.hi) {
    return {_mm512_loadu_ps(row.scores + c),
            _mm512_loadu_ps(row.scores + c + 16)};
  }
  const __mmask32 seen = FirstHalves(row.hi - c) & ~FirstHalves(row.lo - c);
  const __m512 none = _mm512_set1_ps(kLowest);
  return {
      _mm512_mask_loadu_ps(none, static_cast<__mmask16>(seen), row.scores + c),
      _mm512_mask_loadu_ps(none, static_cast<__mmask16>(seen >> 16),
                           row.scores + c + 16)};
}

inline void ZeroWeights(int64_t c0, int64_t c1, uint16_t* weights) {
  for (int64_t c = c0; c < c1; c += 32) {
    _mm512_storeu_si512(weights + c, _mm512_setzero_si512());
  }
}

}  // namespace

void PackLeft(const Bf16Rows& from, uint16_t* to) {
  for (int64_t dim = 0; dim < from.dim; dim += kTileDepth) {
    for (int64_t row = 0; row < kBlockRows; ++row, to += kTileDepth) {
      _mm512_storeu_si512(to, LoadDims(from, row, dim));
    }
  }
}

void PackColumns(const Bf16Rows& from, uint16_t* to) {
  const int64_t rows = (from.rows + 31) / 32 * 32;
  for (int64_t row = 0; row < rows; row += kTileRows) {
    for (int64_t dim = 0; dim < from.dim; dim += kTileDepth) {
      __m512i r[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) r[i] = LoadDims(from, row + i, dim);
      Transpose(r);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * 32, r[i]);
      to += kTileElements;
    }
  }
}

void PackPairs(const Bf16Rows& from, int64_t steps, uint16_t* to) {
  const int64_t rows = (from.rows + 31) / 32 * 32;
  for (int64_t dim = 0; dim < from.dim; dim += 32) {
    uint16_t* const low = to + dim / 16 * steps * kTileElements;
    uint16_t* const high = low + steps * kTileElements;
    for (int64_t row = 0; row < rows; row += 2) {
      const __m512i a = LoadDims(from, row, dim);
      const __m512i b = LoadDims(from, row + 1, dim);
      _mm512_storeu_si512(
          low + row * 16,
          Interleave(_mm512_castsi512_si256(a), _mm512_castsi512_si256(b)));
      _mm512_storeu_si512(high + row * 16,
                          Interleave(_mm512_extracti64x4_epi64(a, 1),
                                     _mm512_extracti64x4_epi64(b, 1)));
    }
  }
}

float RoundWeights(const Bf16Weights& row) {
  const int64_t first = row.lo / 32 * 32;
  const int64_t last = (row.hi + 31) / 32 * 32;
  __m512 m0 = _mm512_set1_ps(kLowest);
  __m512 m1 = m0;
  for (int64_t c = first; c < last; c += 32) {
    const TwoVectors x = LoadScores(row, c);
    m0 = _mm512_max_ps(m0, x.first);
    m1 = _mm512_max_ps(m1, x.second);
  }
  const float before = *row.max;
  const float most = _mm512_reduce_max_ps(_mm512_max_ps(m0, m1)) * row.scale;
  const float now = most > before ? most : before;
  if (now == kLowest) {
    ZeroWeights(row.c0, row.c1, row.weights);
    return 1;
  }
  const __m512 shift = _mm512_set1_ps(now);
  const __m512 scale = _mm512_set1_ps(row.scale);
  __m512 sum0 = _mm512_setzero_ps();
  __m512 sum1 = sum0;
  ZeroWeights(row.c0, first, row.weights);
  for (int64_t c = first; c < last; c += 32) {
    const TwoVectors x = LoadScores(row, c);
    const __m512 p0 = ExpNonPositive(_mm512_fmsub_ps(x.first, scale, shift));
    const __m512 p1 = ExpNonPositive(_mm512_fmsub_ps(x.second, scale, shift));
    sum0 = _mm512_add_ps(sum0, p0);
    sum1 = _mm512_add_ps(sum1, p1);
    const __m512bh both = _mm512_cvtne2ps_pbh(p1, p0);
    std::memcpy(row.weights + c, &both, sizeof(both));
  }
  ZeroWeights(last, row.c1, row.weights);
  float alpha = 1;
  if (before != now) {
    alpha = _mm512_cvtss_f32(ExpNonPositive(_mm512_set1_ps(before - now)));
  }
  *row.max = now;
  *row.sum = *row.sum * alpha + _mm512_reduce_add_ps(_mm512_add_ps(sum0, sum1));
  return alpha;
}

void ScaleFloats(float factor, int64_t count, float* row) {
  const __m512 f = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < count; i += 16) {
    _mm512_storeu_ps(row + i, _mm512_mul_ps(f, _mm512_loadu_ps(row + i)));
  }
}

}  // namespace shardc::exec

HWY_POP_ATTRIBUTES

#else

#include <cstdlib>

namespace shardc::exec {

void PackLeft(const Bf16Rows&, uint16_t*) { std::abort(); }
void PackColumns(const Bf16Rows&, uint16_t*) { std::abort(); }
void PackPairs(const Bf16Rows&, int64_t, uint16_t*) { std::abort(); }
float RoundWeights(const Bf16Weights&) { std::abort(); }
void ScaleFloats(float, int64_t, float*) { std::abort(); }

}  // namespace shardc::exec

#endif  // defined(__x86_64__)
