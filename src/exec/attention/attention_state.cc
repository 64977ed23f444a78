// Begins and ends the online softmax of a row: creates an empty state, and at
// the end divides the output by the sum. A state without keys has max -inf.
//
// A head may have a sink, which is an extra logit that adds its weight to the
// sum but has no value. It can be added to the state before the division. If
// the sink is larger than max, the sum and the output are rescaled to the new
// max. For example:
//
//   (max 1, sum 1) with a sink of 3  ->  (max 3, sum e^-2 + 1 = 1.135)
#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/kernels/kernels.h"
#include "source/index.h"

namespace shardc::exec {

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Returns the factor exp(from - to) by which a state with maximum `from` is
// rescaled, or 0 for a state without keys.
float Weight(float from, float to) {
  return from == kNone ? 0.0f : std::exp(from - to);
}

// Prefetches the cache lines of an output row for writing. Output rows are
// often far apart, so the processor does not prefetch them by itself.
void PrefetchOutput(float* row, size_t dim) {
  constexpr size_t kLine = 16;  // floats of a cache line
  for (size_t i = 0; i < dim; i += kLine) __builtin_prefetch(row + i, 1);
}
constexpr int64_t kRowsAhead = 8;

}  // namespace

void ClearState(const AttentionSlice& slice, const AttentionState& state) {
  const int64_t rows = slice.heads * slice.query_rows;
  std::fill_n(state.max, rows, kNone);
  std::fill_n(state.sum, rows, 0.0f);
  std::fill_n(state.out, rows * slice.value_dim, 0.0f);
}

void FinishAttention(const AttentionSlice& slice, const AttentionState& state,
                     const float* sinks, float* out, int64_t out_head_stride,
                     int64_t out_row_stride, float* lse) {
  for (int64_t g = 0; g < slice.heads; ++g) {
    for (int64_t t = 0; t < slice.query_rows; ++t) {
      const int64_t row = g * slice.query_rows + t;
      float max = state.max[row];
      float sum = state.sum[row];
      float factor = 1;
      if (sinks != nullptr) {
        const float now = std::max(max, sinks[g]);
        factor = Weight(max, now);
        sum = sum * factor + Weight(sinks[g], now);
        max = now;
      }
      const auto dim = AsIndex(slice.value_dim);
      const float* const from = state.out + row * slice.value_dim;
      float* const to = out + g * out_head_stride + t * out_row_stride;
      if (t + kRowsAhead < slice.query_rows) {
        PrefetchOutput(to + kRowsAhead * out_row_stride, dim);
      }
      Mix(sum == 0 ? 0.0f : factor / sum, {from, dim}, 0, {}, {to, dim});
      if (lse != nullptr) lse[row] = sum == 0 ? kNone : std::log(sum) + max;
    }
  }
}

}  // namespace shardc::exec
