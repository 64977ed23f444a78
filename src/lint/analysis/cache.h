// Returns the specs of attention tensors, and computes the bytes of the KV
// cache.
#ifndef SHARDC_LINT_ANALYSIS_CACHE_H_
#define SHARDC_LINT_ANALYSIS_CACHE_H_

#include <cstdint>
#include <optional>

#include "lint/analysis/facts.h"

namespace shardc {

enum AttentionDim { kBatchDim = 0, kLengthDim = 1, kHeadsDim = 2 };

// Returns the spec of an attention tensor such as `query` or `key`. Its
// dimensions are batch, length, heads and head size (bthd). Returns an empty
// spec if no tensor has this name.
Spec AttentionSpecOf(const Facts& facts, Mode mode, std::string_view tensor);
AxisGroup AttentionAxes(const Facts& facts, Mode mode, std::string_view tensor,
                        AttentionDim dim);

// Returns the bytes of the keys and values of all layers in bfloat16. Returns
// nullopt if a size is unknown or the bytes do not fit in 64 bits.
std::optional<int64_t> CacheBytes(const Facts& facts);
// Returns the bytes of the KV cache on one device in a mode. The size of each
// dimension on the device is rounded up. Returns nullopt if CacheBytes()
// returns nullopt.
std::optional<int64_t> CacheBytesPerDevice(const Facts& facts, Mode mode);

bool Plans(const Facts& facts, Mode mode);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_CACHE_H_
