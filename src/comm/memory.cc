// Example: 10 bytes everywhere, and experts of 4, 4 and 2 bytes at coordinates
// 0, 0 and 1 of ep: the fullest device holds 10 + 8. A cache of 8 rows of 100
// tokens over batch=3 length=8 parts: each device holds ceil(8/3) = 3 rows of
// ceil(100/8) = 13 tokens.
#include "comm/memory.h"

#include <algorithm>
#include <array>

#include "source/checked.h"

namespace shardc {
namespace {

int64_t Share(int64_t size, int64_t parts) {
  return (size + parts - 1) / parts;
}

}  // namespace

std::optional<int64_t> CacheBytes(const CacheSizes& sizes) {
  const std::array<int64_t, 7> factors = {2,  // keys and values
                                          sizes.layers,
                                          sizes.batch,
                                          sizes.length,
                                          sizes.kv_heads,
                                          sizes.head_dim,
                                          sizes.element_bytes};
  return CheckedProduct(factors);
}

std::optional<int64_t> CacheBytesPerDevice(const CacheSizes& sizes,
                                           const CacheParts& parts) {
  CacheSizes own = sizes;
  own.batch = Share(sizes.batch, parts.batch);
  own.length = Share(sizes.length, parts.length);
  own.kv_heads = Share(sizes.kv_heads, parts.kv_heads);
  return CacheBytes(own);
}

void HeldBytes::AddTo(int64_t& sum, int64_t bytes) {
  const auto next = CheckedAdd(sum, bytes);
  fits_ = fits_ && next.has_value();
  sum = next.value_or(INT64_MAX);
}

void HeldBytes::Add(int64_t bytes) { AddTo(everywhere_, bytes); }

void HeldBytes::AddAt(const std::string& axis, int64_t coordinate,
                      int64_t bytes) {
  AddTo(placed_[axis][coordinate], bytes);
}

std::optional<int64_t> HeldBytes::Fullest() const {
  if (!fits_) return std::nullopt;
  std::optional<int64_t> out = everywhere_;
  for (const auto& [axis, held] : placed_) {
    int64_t fullest = 0;
    for (const auto& [coordinate, bytes] : held) {
      fullest = std::max(fullest, bytes);
    }
    if (out) out = CheckedAdd(*out, fullest);
  }
  return out;
}

}  // namespace shardc
