// Computes the bytes of a KV cache in bfloat16: 4 (two bytes each for key and
// value) times layers, batch, length, KV heads and head size. On a device, each
// size is divided by the number of shards of its dimension and rounded up. For
// example, 32 layers, batch 8, length 8192, and 8 KV heads of size 128:
//
//   in total                                             8 GiB
//   on a device, batch over dp 2 and KV heads over tp 4  1 GiB
#include "lint/analysis/cache.h"

#include <algorithm>
#include <vector>

#include "comm/memory.h"
#include "lint/analysis/heads.h"
#include "resolve/attention.h"

namespace shardc {
namespace {

std::optional<std::vector<CacheSizes>> CachesOf(const Facts& facts) {
  if (facts.model() == nullptr || !facts.inputs().batch ||
      !facts.inputs().kv_len || !HeadsOf(*facts.model()) ||
      (facts.has() & kNeedsHeads) == 0) {
    return std::nullopt;
  }
  return CachesOf(*facts.model(), *facts.inputs().batch, *facts.inputs().kv_len,
                  Dtype::kBF16);
}

}  // namespace

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
  const auto caches = CachesOf(facts);
  return caches ? CacheBytesPerDevice(*caches, {}) : std::nullopt;
}

std::optional<int64_t> CacheBytesPerDevice(const Facts& facts, Mode mode) {
  const auto caches = CachesOf(facts);
  if (!caches || !CacheBytesPerDevice(*caches, {})) return std::nullopt;
  const auto parts = [&](AttentionDim dim) {
    return facts.mesh()
        .Parts(AttentionAxes(facts, mode, "key", dim))
        .value_or(1);
  };
  return CacheBytesPerDevice(
      *caches, {parts(kBatchDim), parts(kLengthDim), parts(kHeadsDim)});
}

bool Plans(const Facts& facts, Mode mode) {
  const auto& modes = facts.plan().modes;
  return std::find(modes.begin(), modes.end(), mode) != modes.end();
}

}  // namespace shardc
