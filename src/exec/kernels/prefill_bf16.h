// Prefill attention of bfloat16 inputs with bfloat16 products.
#ifndef SHARDC_EXEC_KERNELS_PREFILL_BF16_H_
#define SHARDC_EXEC_KERNELS_PREFILL_BF16_H_

#include <cstdint>

#include "exec/kernels/kernels.h"

namespace shardc::exec {

// Returns true if query, key and value are bfloat16 and the processor
// multiplies bfloat16 numbers faster than float32 numbers (UsedBf16Products).
bool MultipliesBf16(const AttentionSlice& slice);

// Does the same as PrefillAttention, with products in bfloat16: computes the
// attention over the keys of the slice and accumulates it in `state`.
// MultipliesBf16 must be true for the slice.
void PrefillBf16(const AttentionSlice& slice, const AttentionState& state,
                 Scratch& scratch);

// Applies cap, bias and mask of query row t of head g to the scaled scores of
// keys [first, first + count). `scores` must have room for count + 32 numbers.
void AdjustRow(const AttentionSlice& slice, int64_t g, int64_t t, int64_t first,
               int64_t count, float* scores);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_PREFILL_BF16_H_
