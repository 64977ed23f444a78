// Room: exec/kernels. Vectorised loops over numbers: dot products, softmax,
// conversions, quantization.
// Includes: source, model, floats.
//
// Fast attention over one slice: the query heads that share one key head, in
// one batch row. The implementations use SIMD (*_simd.cc); plain loops with the
// same functions, the oracle, are the tests' kernel_loops.h.
//
// Softmax is online (Milakov & Gimelshein 2018; the blocked form is Dao et al.,
// FlashAttention, 2022): a state (max, sum, out) per query row absorbs one
// slice of keys after the other, and FinishAttention divides at the end. A
// row's result depends on that row, its keys and the target alone: not on the
// other rows of the call, on threads, or on how rows are split up.
#ifndef SHARDC_EXEC_KERNELS_KERNELS_H_
#define SHARDC_EXEC_KERNELS_KERNELS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/kernels/scratch.h"
#include "model/dtype.h"

namespace shardc::exec {

// Keys are processed in blocks of this many, from row 0 of the slice.
inline constexpr int64_t kKeyBlock = 256;

// G query heads, T query rows, S key rows, D and Dv dims. Strides count
// elements; the last dim is contiguous. K and V values must be finite even
// where they are masked: a masked weight is 0, and 0 times the value is added.
struct AttentionSlice {
  int64_t heads = 1;       // G
  int64_t query_rows = 0;  // T
  int64_t key_rows = 0;    // S
  int64_t head_dim = 0;    // D
  int64_t value_dim = 0;   // Dv

  const void* query = nullptr;      // [G, T, D] by the two strides
  Dtype query_dtype = Dtype::kF32;  // F32, BF16 or F16
  int64_t query_head_stride = 0;
  int64_t query_row_stride = 0;

  const void* key = nullptr;     // [S, D]
  const void* value = nullptr;   // [S, Dv]
  Dtype kv_dtype = Dtype::kF32;  // F32, BF16, F16 or I8
  int64_t key_row_stride = 0;
  int64_t value_row_stride = 0;
  // I8 only: an element stands for q * scale / 127.5.
  const float* key_scale = nullptr;    // [S] by scale_stride
  const float* value_scale = nullptr;  // [S] by scale_stride
  int64_t scale_stride = 1;

  float scale = 1;     // of the logits
  float soft_cap = 0;  // c * tanh(scale*q.k / c) where not 0

  // Query row t attends to key rows [begin[t], end[t]), which expresses causal
  // masks, windows, lengths and left padding. Null: begin at 0, end at S.
  const int32_t* begin = nullptr;  // [T]
  const int32_t* end = nullptr;    // [T]

  // Added to the logits after the cap; a stride of 0 broadcasts.
  const float* bias = nullptr;  // [G, T, S] by the two strides
  int64_t bias_head_stride = 0;
  int64_t bias_row_stride = 0;
  // 0 masks the entry; for masks that are not intervals.
  const uint8_t* mask = nullptr;  // [G, T, S] by the two strides
  int64_t mask_head_stride = 0;
  int64_t mask_row_stride = 0;
};

// Row (g, t) is at index g*T + t. Empty rows: max -inf, sum 0, out 0.
struct AttentionState {
  float* max = nullptr;  // [G*T]
  float* sum = nullptr;  // [G*T]
  float* out = nullptr;  // [G*T, Dv], not yet divided by sum
};

void ClearState(const AttentionSlice& slice, const AttentionState& state);

// Adds the keys of a slice to the state in blocks, which is the fastest way for
// many query rows. If query, key and value are BF16 and the processor has AMX,
// the products are bfloat16, and the weights are rounded to it for the product
// with the values: an output's error is then up to 2^-8 max |v|
// (prefill_bf16_simd.cc). All other products are float32.
void PrefillAttention(const AttentionSlice& slice, const AttentionState& state,
                      Scratch& scratch);

// One pass over the keys for few query rows, which memory bandwidth bounds.
// Reads the keys of all slices block by block, since those of several heads are
// usually contiguous; all slices must have one kv_dtype. Adds in another order
// than PrefillAttention, so callers choose between them by the global query
// length.
void DecodeAttention(std::span<const AttentionSlice> slices,
                     std::span<const AttentionState> states, Scratch& scratch);

// Computes out = state.out / sum, zeros where sum is 0. With `sinks` [G] the
// sum first grows by exp(sink - max). `lse` [G*T], if not null, receives
// log(sum) + max, -inf for empty rows. Output strides count elements.
void FinishAttention(const AttentionSlice& slice, const AttentionState& state,
                     const float* sinks, float* out, int64_t out_head_stride,
                     int64_t out_row_stride, float* lse);

// Computes e^x. The largest error over all float32, in units of the result's
// last place (at least 2^-149, so subnormal results count): 1.0104 with fused
// multiply-add, 0.9904 without. NaN stays NaN.
inline constexpr double kExpMaxUlp = 1.011;
void Exp(std::span<const float> x, std::span<float> out);
// Computes e^x for x <= 0, for softmax: as Exp does, but results below 2^-126
// may be 0.
void ExpNonPositive(std::span<const float> x, std::span<float> out);

// For collectives, called for one member after the other: into[i] += x[i] and
// into[i] = max(into[i], x[i]); a NaN on either side stays.
void AddInto(std::span<const float> x, std::span<float> into);
void MaxInto(std::span<const float> x, std::span<float> into);

// Computes out = a*x + b*y, or a*x if b is 0 (y may be empty then); out may be
// x or y. Products are rounded before they are added.
void Mix(float a, std::span<const float> x, float b, std::span<const float> y,
         std::span<float> out);

// Computes into [rows, columns] += a [rows, inner] times b [inner, columns],
// row-major. Products of an element are added one after the other, each rounded
// first, so every target gives the same bits.
struct MatrixSizes {
  size_t rows = 0, columns = 0, inner = 0;
};
void MultiplyInto(std::span<const float> a, std::span<const float> b,
                  const MatrixSizes& sizes, std::span<float> into);

// Applies rotary embedding to `row` [D] in place with cos, sin [D/2]: pairs are
// (i, i + D/2), or (2i, 2i+1) if interleaved. Products are rounded before they
// are added, so every target gives the same bits.
void Rotate(std::span<float> row, std::span<const float> cos,
            std::span<const float> sin, bool interleaved);

// Returns the compiled instruction sets that this processor has, best first, by
// names such as "AVX3". The last is portable code. "AMX" is the best set
// together with AMX; the sets after it are without.
std::vector<std::string> KernelTargets();
// Makes the kernels use the named set; "" selects the best again. Returns false
// if there is no such set. For tests and measurements, while no kernel runs.
bool UseKernelTarget(std::string_view name);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_KERNELS_H_
