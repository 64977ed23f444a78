#include "comm/memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace shardc {
namespace {

// The published bytes for each token; the arguments are layers, key heads and
// head dim, in bfloat16.
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
  // Each device has 3 of 8 rows, 13 of 100 tokens and 1 of 4 heads.
  CHECK(CacheBytesPerDevice(sizes, {3, 8, 4}) == 2 * 2 * 3 * 13 * 1 * 16 * 2);
  // With more shards than heads, each device has one head.
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

TEST_CASE("the emptiest device is at the emptiest coordinate of each axis") {
  Mesh mesh;
  mesh.axes = {{"ep", 2}, {"tp", 4}};
  mesh.devices = 8;
  HeldBytes held;
  CHECK(held.Emptiest(mesh) == 0);
  held.Add(10);
  CHECK(held.Emptiest(mesh) == 10);
  // Coordinate 0 of ep has bytes and coordinate 1 has none, so devices of
  // coordinate 1 have the fewest.
  held.AddAt("ep", 0, 4);
  CHECK(held.Emptiest(mesh) == 10);
  // Coordinate 1 holds more than coordinate 0, and then less.
  held.AddAt("ep", 1, 6);
  CHECK(held.Emptiest(mesh) == 14);
  held.AddAt("ep", 0, 3);
  CHECK(held.Emptiest(mesh) == 16);
  for (int64_t i = 0; i < 3; ++i) held.AddAt("tp", i, 5);
  CHECK(held.Emptiest(mesh) == 16);
  held.AddAt("tp", 3, 1);
  CHECK(held.Emptiest(mesh) == 17);
  CHECK(held.Fullest() == 10 + 7 + 5);
}

TEST_CASE("bytes that overflow 64 bits are reported as unknown") {
  Mesh two;
  two.axes = {{"ep", 2}};
  two.devices = 2;
  HeldBytes whole;
  whole.Add(INT64_MAX);
  CHECK(whole.Fullest() == INT64_MAX);
  whole.Add(1);
  CHECK(whole.Fullest() == std::nullopt);
  CHECK(whole.Emptiest(two) == std::nullopt);

  HeldBytes placed;
  placed.AddAt("ep", 1, INT64_MAX);
  placed.AddAt("ep", 1, 1);
  CHECK(placed.Fullest() == std::nullopt);
  CHECK(placed.placed().at("ep").at(1) == INT64_MAX);

  HeldBytes both;
  both.Add(INT64_MAX);
  both.AddAt("ep", 1, 1);
  CHECK(both.Fullest() == std::nullopt);
  // Coordinate 1 has no bytes besides those of all devices.
  CHECK(both.Emptiest(two) == INT64_MAX);
  both.AddAt("ep", 0, 1);
  CHECK(both.Emptiest(two) == std::nullopt);
  // A sum that has overflowed stays unknown, whatever is added later.
  both.AddAt("ep", 0, 0);
  CHECK(both.Emptiest(two) == std::nullopt);
}

TEST_CASE("sums that include unknown bytes are unknown") {
  Mesh two;
  two.axes = {{"ep", 2}};
  two.devices = 2;
  HeldBytes whole;
  whole.Add(std::nullopt);
  whole.Add(1);
  CHECK(whole.Fullest() == std::nullopt);
  CHECK(whole.Emptiest(two) == std::nullopt);
  HeldBytes placed;
  placed.AddAt("ep", 0, 1);
  placed.AddAt("ep", 1, std::nullopt);
  CHECK(placed.Fullest() == std::nullopt);
  CHECK(placed.Emptiest(two) == std::nullopt);
}

TEST_CASE("the caches of a device are the sum of each one's share") {
  // The members are layers, batch, length, KV heads, head_dim, bytes of an
  // element, tensors.
  const std::vector<CacheSizes> all = {{3, 8, 100, 4, 16, 2},
                                       {1, 8, 10, 1, 8, 4, 1}};
  CHECK(CacheBytesPerDevice(all, CacheParts{}) ==
        2 * 3 * 8 * 100 * 4 * 16 * 2 + 8 * 10 * 8 * 4);
  // Each device has 3 of 8 rows, 13 of 100 and 2 of 10 tokens, and 2 of 4 heads
  // and the only one.
  CHECK(CacheBytesPerDevice(all, CacheParts{3, 8, 2}) ==
        2 * 3 * 3 * 13 * 2 * 16 * 2 + 3 * 2 * 8 * 4);
  CHECK(CacheBytesPerDevice(std::vector<CacheSizes>(), CacheParts{}) == 0);
  const CacheSizes huge = {INT64_MAX, 1, 1, 1, 1, 1, 1};
  CHECK(CacheBytesPerDevice({huge}, CacheParts{}) == INT64_MAX);
  CHECK(CacheBytesPerDevice({huge, huge}, CacheParts{}) == std::nullopt);
  // Keys of 8 elements and values of 6.
  const CacheSizes narrow = {.layers = 3,
                             .batch = 2,
                             .length = 10,
                             .kv_heads = 4,
                             .head_dim = 8,
                             .value_dim = 6};
  CHECK(CacheBytesPerDevice({narrow}, CacheParts{1, 2, 4}) ==
        3 * 2 * 5 * 1 * (8 + 6) * 2);
  const CacheSizes unknown = {INT64_MAX, 2, 1, 1, 1, 1, 1};
  CHECK(CacheBytesPerDevice({unknown, all[0]}, CacheParts{}) == std::nullopt);
}

// Returns for each cache [tensors, layers, batch, length, kv_heads, head_dim,
// element_bytes], and value_dim if it is not 0; {} if the sizes are not known.
std::vector<std::vector<int64_t>> Rows(const ModelConfig& model,
                                       Dtype dtype = Dtype::kBF16) {
  const auto caches = CachesOf(model, 3, 100, dtype);
  std::vector<std::vector<int64_t>> out;
  for (const CacheSizes& one : caches.value_or(std::vector<CacheSizes>())) {
    out.push_back({one.tensors, one.layers, one.batch, one.length, one.kv_heads,
                   one.head_dim, one.element_bytes});
    if (one.value_dim > 0) out.back().push_back(one.value_dim);
  }
  return out;
}

TEST_CASE("the caches that a model's layers keep") {
  using Table = std::vector<std::vector<int64_t>>;
  ModelConfig model;
  model.layers = 6;
  model.heads = 8;
  model.kv_heads = 2;
  model.head_dim = 16;
  CHECK(Rows(model) == Table{{2, 6, 3, 100, 2, 16, 2}});
  CHECK(Rows(model, Dtype::kF32) == Table{{2, 6, 3, 100, 2, 16, 4}});
  // An int8 cache has a float32 scale for each token and head.
  CHECK(Rows(model, Dtype::kI8) ==
        Table{{2, 6, 3, 100, 2, 16, 1}, {2, 6, 3, 100, 2, 1, 4}});
  // Only layers with attention have a cache.
  model.attention_layers = 4;
  CHECK(Rows(model) == Table{{2, 4, 3, 100, 2, 16, 2}});
  // Without a number of windowed layers, all layers with attention have the
  // window.
  model.sliding_window = 30;
  CHECK(Rows(model) == Table{{2, 4, 3, 30, 2, 16, 2}});
  model.windowed_layers = 1;
  CHECK(Rows(model) ==
        Table{{2, 3, 3, 100, 2, 16, 2}, {2, 1, 3, 30, 2, 16, 2}});
  CHECK(Rows(model, Dtype::kI8) == Table{{2, 3, 3, 100, 2, 16, 1},
                                         {2, 1, 3, 30, 2, 16, 1},
                                         {2, 1, 3, 30, 2, 1, 4},
                                         {2, 3, 3, 100, 2, 1, 4}});
  model.sliding_window = 200;
  CHECK(Rows(model) ==
        Table{{2, 3, 3, 100, 2, 16, 2}, {2, 1, 3, 100, 2, 16, 2}});
  model.windowed_layers = 9;
  CHECK(Rows(model) == Table{{2, 4, 3, 100, 2, 16, 2}});
  model.windowed_layers = 0;
  CHECK(Rows(model) == Table{{2, 4, 3, 100, 2, 16, 2}});
  // Llama 4: layers that attend within chunks keep a chunk at most.
  model.sliding_window = {};
  model.attention_chunk = 30;
  model.windowed_layers = 3;
  CHECK(Rows(model) ==
        Table{{2, 1, 3, 100, 2, 16, 2}, {2, 3, 3, 30, 2, 16, 2}});
  // Gemma 4: layers without a window have fewer and larger heads.
  model.full_kv_heads = 1;
  model.full_head_dim = 32;
  CHECK(Rows(model) ==
        Table{{2, 1, 3, 100, 1, 32, 2}, {2, 3, 3, 30, 2, 16, 2}});
  model.full_kv_heads = model.full_head_dim = {};
  // MiMo-V2: values are narrower than keys, and layers with a window have more
  // heads. An int8 cache has a scale for a key and a scale for a value.
  model.value_dim = 12;
  model.windowed_kv_heads = 4;
  CHECK(Rows(model) ==
        Table{{2, 1, 3, 100, 2, 16, 2, 12}, {2, 3, 3, 30, 4, 16, 2, 12}});
  model.windowed_head_dim = 8;
  model.windowed_value_dim = 6;
  CHECK(Rows(model, Dtype::kI8) == Table{{2, 1, 3, 100, 2, 16, 1, 12},
                                         {2, 3, 3, 30, 4, 8, 1, 6},
                                         {2, 3, 3, 30, 4, 1, 4},
                                         {2, 1, 3, 100, 2, 1, 4}});
  model.value_dim = model.windowed_kv_heads = {};
  model.windowed_head_dim = model.windowed_value_dim = {};
  // Layers that attend to the keys of others keep none: two of the three left
  // have chunks.
  model.borrowing_layers = 1;
  model.borrowing_windowed = 1;
  CHECK(Rows(model) ==
        Table{{2, 1, 3, 100, 2, 16, 2}, {2, 2, 3, 30, 2, 16, 2}});
  model.borrowing_layers = {};
  model.attention_chunk = {};
  // Without a number of KV heads, each query head has its own.
  model.kv_heads = {};
  CHECK(Rows(model) == Table{{2, 4, 3, 100, 8, 16, 2}});
}

TEST_CASE("a latent is cached once for all heads, with its rotated part") {
  using Table = std::vector<std::vector<int64_t>>;
  ModelConfig model;
  model.layers = 6;
  model.latent_rank = 512;
  model.latent_rope_dim = 64;
  CHECK(Rows(model) == Table{{1, 6, 3, 100, 1, 576, 2}});
  model.index_dim = 128;
  CHECK(Rows(model) == Table{{1, 6, 3, 100, 1, 704, 2}});
  model.index_dim = {};
  model.latent_rope_dim = {};
  CHECK(Rows(model) == Table{{1, 6, 3, 100, 1, 512, 2}});
}

TEST_CASE("caches of unknown size") {
  using Table = std::vector<std::vector<int64_t>>;
  ModelConfig known;
  known.layers = 6;
  known.heads = 8;
  known.head_dim = 16;
  CHECK(Rows(known).size() == 1);
  // A model without attention has no cache, whatever its heads are.
  ModelConfig recurrent;
  recurrent.layers = 6;
  recurrent.attention_layers = 0;
  const auto none = CachesOf(recurrent, 3, 100, Dtype::kBF16);
  REQUIRE(none);
  CHECK(none->empty());
  ModelConfig model = known;
  model.layers = {};
  CHECK(Rows(model) == Table());
  model = known;
  model.has_encoder = true;
  CHECK(Rows(model) == Table());
  model = known;
  model.heads = {};
  CHECK(Rows(model) == Table());
  model = known;
  model.head_dim = {};
  CHECK(Rows(model) == Table());
  model = known;
  model.model_type = "deepseek_v3";
  CHECK(Rows(model) == Table());
}

}  // namespace
}  // namespace shardc
