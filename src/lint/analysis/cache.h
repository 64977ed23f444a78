// Attention's specs by dimension, and the inputs that say what the
// KV cache weighs.
#ifndef SHARDC_LINT_ANALYSIS_CACHE_H_
#define SHARDC_LINT_ANALYSIS_CACHE_H_

#include <cstdint>
#include <optional>

#include "lint/analysis/facts.h"

namespace shardc {

enum AttentionDim { kBatchDim = 0, kLengthDim = 1, kHeadsDim = 2 };

// `query` or `key` in layout bthd: batch, length, heads, head dim.
Spec AttentionSpecOf(const Facts& facts, Mode mode, std::string_view tensor);
AxisGroup AttentionAxes(const Facts& facts, Mode mode, std::string_view tensor,
                        AttentionDim dim);

// Keys and values of all layers in bfloat16. Nothing where an input is not
// known.
std::optional<int64_t> CacheBytes(const Facts& facts);
// What one device holds of it in a mode, rounded up dimension by dimension.
std::optional<int64_t> CacheBytesPerDevice(const Facts& facts, Mode mode);

bool Plans(const Facts& facts, Mode mode);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_CACHE_H_
