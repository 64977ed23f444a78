// The cache is a product of sizes: 4 bytes (key and value, two each) times
// layers, batch, length, KV heads and their width. A device has each size
// divided by the axes of its dimension, rounded up:
//
//   4 * 32 * 8 * 8192 * 8 * 128 = 8 GiB; batch over 2, KV heads over 4: 1 GiB
#include "lint/analysis/cache.h"

#include <algorithm>
#include <array>

#include "lint/analysis/heads.h"
#include "resolve/attention.h"
#include "source/checked.h"

namespace shardc {

Spec AttentionSpecOf(const Facts& facts, Mode mode, std::string_view tensor) {
  for (const AttentionTensor& one :
       AttentionSpecs(*facts.compiled().resolver, mode, {})) {
    if (one.name == tensor) return one.resolved.spec;
  }
  return {};
}

AxisGroup AttentionAxes(const Facts& facts, Mode mode, std::string_view tensor,
                        AttentionDim dim) {
  const Spec spec = AttentionSpecOf(facts, mode, tensor);
  const auto at = static_cast<size_t>(dim);
  return at < spec.size() ? spec[at] : AxisGroup{};
}

std::optional<int64_t> CacheBytes(const Facts& facts) {
  if (facts.model() == nullptr || !facts.inputs().batch ||
      !facts.inputs().kv_len || !facts.model()->layers) {
    return std::nullopt;
  }
  // Multi-head latent attention caches a latent, not heads.
  if (facts.model()->model_type.starts_with("deepseek_v")) return std::nullopt;
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return std::nullopt;
  const std::array<int64_t, 6> factors = {4,  // keys and values, two bytes each
                                          *facts.model()->layers,
                                          *facts.inputs().batch,
                                          *facts.inputs().kv_len,
                                          heads->kv_heads,
                                          heads->head_dim};
  return CheckedProduct(factors);
}

std::optional<int64_t> CacheBytesPerDevice(const Facts& facts, Mode mode) {
  if (!CacheBytes(facts)) return std::nullopt;
  const auto heads = HeadsOf(*facts.model());
  const auto share = [&](int64_t size, AttentionDim dim) {
    const int64_t parts =
        facts.mesh().Parts(AttentionAxes(facts, mode, "key", dim)).value_or(1);
    return (size + parts - 1) / parts;
  };
  const std::array<int64_t, 6> factors = {
      4,
      *facts.model()->layers,
      share(*facts.inputs().batch, kBatchDim),
      share(*facts.inputs().kv_len, kLengthDim),
      share(heads->kv_heads, kHeadsDim),
      heads->head_dim};
  return CheckedProduct(factors);
}

bool Plans(const Facts& facts, Mode mode) {
  const auto& modes = facts.plan().modes;
  return std::find(modes.begin(), modes.end(), mode) != modes.end();
}

}  // namespace shardc
