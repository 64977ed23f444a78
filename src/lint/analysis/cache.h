// Specs of attention tensors by dimension, and the bytes of the KV cache.
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

// Bytes of keys and values of all layers in bfloat16; empty if an input is
// unknown.
std::optional<int64_t> CacheBytes(const Facts& facts);
// The bytes that one device holds in a mode, each dimension rounded up.
std::optional<int64_t> CacheBytesPerDevice(const Facts& facts, Mode mode);

bool Plans(const Facts& facts, Mode mode);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_CACHE_H_
