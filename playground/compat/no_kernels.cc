// The vectorised functions, which Highway compiles for each processor. `cost`
// reads facts of the operations, whose table refers to these functions, so the
// link needs them. No command of the playground computes with tensors: a call
// is a mistake in the choice of commands, and ends the run.
#include <cstdlib>

#include "exec/kernels/kernels.h"
#include "floats/convert_simd.h"

namespace shardc {

void SimdF16FromF32(const void*, void*, size_t) { std::abort(); }
void SimdBf16FromF32(const void*, void*, size_t) { std::abort(); }
void SimdF32FromF16(const void*, void*, size_t) { std::abort(); }
void SimdF32FromBf16(const void*, void*, size_t) { std::abort(); }
void SimdF16FromBf16(const void*, void*, size_t) { std::abort(); }
void SimdBf16FromF16(const void*, void*, size_t) { std::abort(); }

namespace exec {

void AddInto(std::span<const float>, std::span<float>) { std::abort(); }
void MaxInto(std::span<const float>, std::span<float>) { std::abort(); }
void MultiplyInto(std::span<const float>, std::span<const float>,
                  const MatrixSizes&, std::span<float>) {
  std::abort();
}
void Mix(float, std::span<const float>, float, std::span<const float>,
         std::span<float>) {
  std::abort();
}
void PrefillAttention(const AttentionSlice&, const AttentionState&, Scratch&) {
  std::abort();
}
void DecodeAttention(std::span<const AttentionSlice>,
                     std::span<const AttentionState>, Scratch&) {
  std::abort();
}

}  // namespace exec
}  // namespace shardc
