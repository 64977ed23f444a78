#include "comm/memory.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

// Published bytes per token: layers, key heads, head dim in bfloat16.
TEST_CASE("cache bytes per token of known models") {
  const auto token = [](int64_t layers, int64_t kv_heads, int64_t head_dim) {
    return CacheBytes({layers, 1, 1, kv_heads, head_dim});
  };
  CHECK(token(32, 32, 128) == 524288);  // llama2-7b
  CHECK(token(32, 8, 128) == 131072);   // llama3-8b
  CHECK(token(80, 8, 128) == 327680);   // llama3-70b
  CHECK(token(126, 8, 128) == 516096);  // llama3.1-405b
  CHECK(token(18, 1, 256) == 18432);    // gemma-2b
  CHECK(token(62, 16, 128) == 507904);  // gemma3-27b
}

TEST_CASE("the bytes on a device are rounded up dimension by dimension") {
  const CacheSizes sizes{2, 8, 100, 4, 16, 2};
  CHECK(CacheBytes(sizes) == 2 * 2 * 8 * 100 * 4 * 16 * 2);
  CHECK(CacheBytesPerDevice(sizes, {}) == CacheBytes(sizes));
  // 3 of 8 rows, 13 of 100 tokens, 1 of 4 heads.
  CHECK(CacheBytesPerDevice(sizes, {3, 8, 4}) == 2 * 2 * 3 * 13 * 1 * 16 * 2);
  // More parts than heads: one each.
  CHECK(CacheBytesPerDevice(sizes, {1, 1, 16}) == 2 * 2 * 8 * 100 * 16 * 2);
  CHECK(CacheBytes({INT64_MAX / 2, 2, 1, 1, 1, 1}) == std::nullopt);
}

TEST_CASE("the fullest device is at the fullest coordinate of each axis") {
  HeldBytes held;
  CHECK(held.Fullest() == 0);
  held.Add(10);
  held.AddAt("ep", 0, 4);
  held.AddAt("ep", 0, 4);
  held.AddAt("ep", 1, 2);
  CHECK(held.Fullest() == 18);
  held.AddAt("tp", 3, 100);
  CHECK(held.Fullest() == 118);
  CHECK(held.placed().at("ep") == HeldBytes::ByCoordinate{{0, 8}, {1, 2}});
  CHECK(held.placed().at("tp") == HeldBytes::ByCoordinate{{3, 100}});
}

TEST_CASE("bytes that overflow 64 bits are reported as unknown") {
  HeldBytes whole;
  whole.Add(INT64_MAX);
  CHECK(whole.Fullest() == INT64_MAX);
  whole.Add(1);
  CHECK(whole.Fullest() == std::nullopt);

  HeldBytes placed;
  placed.AddAt("ep", 1, INT64_MAX);
  placed.AddAt("ep", 1, 1);
  CHECK(placed.Fullest() == std::nullopt);
  CHECK(placed.placed().at("ep").at(1) == INT64_MAX);

  HeldBytes both;
  both.Add(INT64_MAX);
  both.AddAt("ep", 1, 1);
  CHECK(both.Fullest() == std::nullopt);
}

}  // namespace
}  // namespace shardc
