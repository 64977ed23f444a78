// Directory: exec/kernels. Vectorised loops over numbers: dot products,
// softmax, conversions, quantization.
// Its files include headers of these directories: source, model, floats.
//
// Fast attention over one slice: the query heads that share one key head, in
// one batch row. The implementations use SIMD (*_simd.cc). Tests compare them
// with plain loops (kernel_loops.h of the tests).
//
// Softmax is online (Milakov & Gimelshein 2018; the blocked form is Dao et al.,
// FlashAttention, 2022). Each query row has a state (max, sum, out) to which
// slices of keys are added, and FinishAttention divides at the end. A row's
// result depends only on that row, its keys and the instruction set (the SIMD
// target). It does not depend on the other rows of the call, on threads, or on
// how rows are split up.
#ifndef SHARDC_EXEC_KERNELS_KERNELS_H_
#define SHARDC_EXEC_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"

namespace shardc::exec {

class Scratch {
 public:
  static constexpr size_t kAlign = 64;  // bytes of a cache line

  // Begins a new round of Take calls with `bytes` bytes in total, and
  // invalidates the results of earlier rounds. The memory grows if needed and
  // never shrinks.
  void Reset(size_t bytes) {
    if (size_ < bytes + kAlign) {
      size_ = bytes + kAlign;
      bytes_ = std::make_unique_for_overwrite<unsigned char[]>(size_);
    }
    const auto at = reinterpret_cast<uintptr_t>(bytes_.get());
    used_ = (kAlign - at % kAlign) % kAlign;
  }

  // Returns `count` aligned, uninitialised elements. The sum of Bytes(count) of
  // all calls since Reset must not exceed the size given to Reset.
  template <typename T>
  T* Take(size_t count) {
    T* const out = reinterpret_cast<T*>(bytes_.get() + used_);
    used_ += Bytes<T>(count);
    return out;
  }

  template <typename T>
  static constexpr size_t Bytes(size_t count) {
    return (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  }

 private:
  std::unique_ptr<unsigned char[]> bytes_;
  size_t size_ = 0;
  size_t used_ = 0;
};

// The number of keys in a block of PrefillAttention. The first block begins at
// row 0 of the slice.
inline constexpr int64_t kKeyBlock = 256;

// The arguments of the kernels. Strides are in elements; the last dim is
// contiguous. Keys and values must be finite even if they are masked: a masked
// key has weight 0, and 0 times its value is added to the output.
struct AttentionSlice {
  int64_t heads = 1;       // G: number of query heads
  int64_t query_rows = 0;  // T: query rows of each head
  int64_t key_rows = 0;    // S: number of keys
  int64_t head_dim = 0;    // D: dims of a query and key
  int64_t value_dim = 0;   // Dv: dims of a value

  const void* query = nullptr;      // [G, T, D], with the two strides below
  Dtype query_dtype = Dtype::kF32;  // F32, BF16 or F16
  int64_t query_head_stride = 0;
  int64_t query_row_stride = 0;

  const void* key = nullptr;     // [S, D]
  const void* value = nullptr;   // [S, Dv]
  Dtype kv_dtype = Dtype::kF32;  // F32, BF16, F16 or I8
  int64_t key_row_stride = 0;
  int64_t value_row_stride = 0;
  // For I8 only: an element q represents q * scale / 127.5. Each key row has
  // one scale. Scales of consecutive rows are scale_stride floats apart.
  const float* key_scale = nullptr;    // [S]
  const float* value_scale = nullptr;  // [S]
  int64_t scale_stride = 1;

  float scale = 1;  // the product q.k is multiplied by this
  // If not 0, the logit is soft_cap * tanh(scale*q.k / soft_cap).
  float soft_cap = 0;

  // Query row t attends to key rows [begin[t], end[t]). Such intervals express
  // causal masks, windows, lengths and left padding. A null `begin` means 0 and
  // a null `end` means S, for all rows.
  const int32_t* begin = nullptr;  // [T]
  const int32_t* end = nullptr;    // [T]

  // The bias is added to the logits after the cap. A stride of 0 broadcasts it.
  const float* bias = nullptr;  // [G, T, S], with the two strides below
  int64_t bias_head_stride = 0;
  int64_t bias_row_stride = 0;
  // A mask for patterns that are not intervals. An entry of 0 masks its key.
  const uint8_t* mask = nullptr;  // [G, T, S], with the two strides below
  int64_t mask_head_stride = 0;
  int64_t mask_row_stride = 0;
};

// The running softmax of each row; row t of head g is at index g*T + t. For a
// row without keys max is -inf, and sum and out are 0.
struct AttentionState {
  float* max = nullptr;  // [G*T]
  float* sum = nullptr;  // [G*T]
  float* out = nullptr;  // [G*T, Dv], not yet divided by sum
};

void ClearState(const AttentionSlice& slice, const AttentionState& state);

// Computes the attention of the query rows over the keys of a slice, block by
// block, and accumulates it in `state`. This function is the fastest for many
// query rows. It computes products in bfloat16 if query, key and value are BF16
// and the processor has AMX or is an AMD processor with AVX512_BF16. Weights
// are then rounded to bfloat16 before they multiply the values, so an output's
// error is up to 2^-8 max |v| (prefill_bf16_simd.cc). Otherwise all products
// are float32.
void PrefillAttention(const AttentionSlice& slice, const AttentionState& state,
                      Scratch& scratch);

// Computes attention like PrefillAttention, for several slices, each with its
// own state. This function is for few query rows, where memory bandwidth limits
// the speed. It reads all slices together, block by block, because the keys of
// several heads are usually contiguous. All slices must have the same kv_dtype.
// The order of additions differs from PrefillAttention's. Callers therefore
// choose between the two by the query length of the unsharded tensor, so that
// sharded and unsharded runs use the same function.
void DecodeAttention(std::span<const AttentionSlice> slices,
                     std::span<const AttentionState> states, Scratch& scratch);

// Computes out = state.out / sum, or zeros where sum is 0. If `sinks` [G] is
// not null, first adds exp(sink - max) to the sum. If `lse` [G*T] is not null,
// sets it to log(sum) + max, which is -inf for rows without keys. Output
// strides are in elements.
void FinishAttention(const AttentionSlice& slice, const AttentionState& state,
                     const float* sinks, float* out, int64_t out_head_stride,
                     int64_t out_row_stride, float* lse);

// Computes e^x; NaN stays NaN. The largest error over all float32, in ulp of
// the result (an ulp is at least 2^-149, also for subnormal results), is 1.0104
// with fused multiply-add and 0.9904 without.
inline constexpr double kExpMaxUlp = 1.011;
void Exp(std::span<const float> x, std::span<float> out);
// Computes e^x for x <= 0, for softmax. Unlike Exp, returns 0 for some results
// below 2^-126.
void ExpNonPositive(std::span<const float> x, std::span<float> out);

// AddInto adds x[i] to into[i]. MaxInto sets into[i] to the larger of x[i] and
// into[i]. The result is NaN if one of the numbers is NaN. Collectives call
// these functions for one device of a group after the other.
void AddInto(std::span<const float> x, std::span<float> into);
void MaxInto(std::span<const float> x, std::span<float> into);

// Computes out = a*x + b*y, or a*x if b is 0. If b is 0, y may be empty. `out`
// may be the same array as x or y. Products are rounded before they are added.
void Mix(float a, std::span<const float> x, float b, std::span<const float> y,
         std::span<float> out);

struct MatrixSizes {
  size_t rows = 0, columns = 0, inner = 0;
};
// Computes into [rows, columns] += a [rows, inner] times b [inner, columns],
// all row-major. The products of an element are rounded and then added one
// after the other, so every target computes the same bits.
void MultiplyInto(std::span<const float> a, std::span<const float> b,
                  const MatrixSizes& sizes, std::span<float> into);
void MultiplyInto(std::span<const double> a, std::span<const double> b,
                  const MatrixSizes& sizes, std::span<double> into);

// Applies rotary embedding to `row` [D] in place, with cos and sin [D/2]. It
// rotates the pairs (i, i + D/2), or (2i, 2i+1) if `interleaved`. Products are
// rounded before they are added, so every target computes the same bits.
void Rotate(std::span<float> row, std::span<const float> cos,
            std::span<const float> sin, bool interleaved);

// Returns the compiled instruction sets that this processor has, best first, by
// names such as "AVX3". The names "AMX" and "VDPBF16PS" mean the best set
// together with products of bfloat16 numbers by these instructions. All other
// names mean sets that compute all products in float32.
std::vector<std::string> KernelTargets();
// Makes the kernels use the named instruction set; "" selects the best set.
// Returns false if the processor or the program lacks the set. Tests and
// measurements call this function while no kernel runs.
bool UseKernelTarget(std::string_view name);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_KERNELS_H_
