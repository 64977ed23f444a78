#include "model/mesh_layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "draws.h"

namespace shardc {
namespace {

using Elements = std::vector<int64_t>;

Mesh MeshOf(const std::vector<std::pair<std::string, int64_t>>& axes) {
  Mesh mesh;
  for (const auto& [name, size] : axes) {
    mesh.axes.push_back({name, size});
    mesh.devices *= size;
  }
  return mesh;
}

// Divides a list into `parts` lists as torch.chunk does: each but the last ones
// takes as many elements as the largest share has, one by one.
std::vector<Elements> Chunks(const Elements& list, size_t parts) {
  std::vector<Elements> out(parts);
  size_t share = 0;
  while (share * parts < list.size()) ++share;
  size_t part = 0;
  for (const int64_t element : list) {
    if (out[part].size() == share) ++part;
    out[part].push_back(element);
  }
  return out;
}

// Returns the elements of each shard, in the order of the shards' numbers.
std::vector<Elements> ShardsOf(int64_t size, const std::vector<int64_t>& axes) {
  Elements all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), int64_t{0});
  std::vector<Elements> out = {all};
  for (const int64_t axis : axes) {
    std::vector<Elements> next;
    for (const Elements& list : out) {
      for (Elements& part : Chunks(list, static_cast<size_t>(axis))) {
        next.push_back(std::move(part));
      }
    }
    out = std::move(next);
  }
  return out;
}

TEST_CASE("the last shards are shorter or empty") {
  struct Row {
    int64_t size;
    std::vector<int64_t> axes;
    std::vector<int64_t> sizes;  // of the shards
  };
  const std::vector<Row> rows = {
      {8, {4}, {2, 2, 2, 2}},
      {10, {4}, {3, 3, 3, 1}},
      {3, {4}, {1, 1, 1, 0}},
      {9, {4}, {3, 3, 3, 0}},
      {0, {2}, {0, 0}},
      {1, {1}, {1}},
      {10, {}, {10}},
      // The shards over [2, 4] divide the shards 0:5 and 5:10 over [2].
      {10, {2, 4}, {2, 2, 1, 0, 2, 2, 1, 0}},
      {10, {4, 2}, {2, 1, 2, 1, 2, 1, 1, 0}},
      // The last shard is not always the smallest one.
      {7, {2, 3}, {2, 2, 0, 1, 1, 1}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.size);
    int64_t begin = 0;
    for (size_t i = 0; i < row.sizes.size(); ++i) {
      CHECK(RangeOfShard(row.size, row.axes, static_cast<int64_t>(i)) ==
            ShardRange{begin, row.sizes[i]});
      begin += row.sizes[i];
    }
    CHECK(begin == row.size);
  }
  CHECK(RangeOfShard(50257, std::vector<int64_t>{8}, 7) ==
        ShardRange{43981, 6276});
}

TEST_CASE("shards are the lists of torch.chunk, axis by axis") {
  Draws draws(7);
  const auto below = [&](uint64_t n) {
    return static_cast<int64_t>(draws() % n);
  };
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    std::vector<std::pair<std::string, int64_t>> named;
    AxisGroup group;
    for (int64_t i = below(4); i >= 0; --i) {
      named.emplace_back("a" + std::to_string(i), 1 + below(5));
      group.push_back(named.back().first);
    }
    const Mesh mesh = MeshOf(named);
    std::reverse(group.begin(), group.end());
    if (below(3) == 0) group.pop_back();
    const std::vector<int64_t> axes = AxisSizes(mesh, group);
    const int64_t size = below(60);
    const std::vector<Elements> shards = ShardsOf(size, axes);
    size_t largest = 0;
    int64_t total = 0;
    for (size_t i = 0; i < shards.size(); ++i) {
      const ShardRange range =
          RangeOfShard(size, axes, static_cast<int64_t>(i));
      CHECK(range.size == static_cast<int64_t>(shards[i].size()));
      if (!shards[i].empty()) CHECK(range.begin == shards[i].front());
      CHECK(range.begin <= size);
      largest = std::max(largest, shards[i].size());
      total += range.size;
    }
    CHECK(total == size);
    // The first device of the mesh has the largest shard.
    const Shape shard = ShardShape(mesh, {size, 3}, {group});
    CHECK(shard == Shape{static_cast<int64_t>(largest), 3});
    CHECK(shards.front().size() == largest);
    const bool even =
        std::all_of(shards.begin(), shards.end(),
                    [&](const Elements& one) { return one.size() == largest; });
    CHECK(DividesEvenly(mesh, {size, 3}, {group}) == even);
    for (int64_t device = 0; device < mesh.devices; ++device) {
      const std::vector<int64_t> at = CoordinatesOf(mesh, device);
      CHECK(RangeAlong(mesh, at, group, size) ==
            RangeOfShard(size, axes, IndexAlong(mesh, at, group)));
    }
  }
}

TEST_CASE("uneven dimensions are listed") {
  Mesh mesh = MeshOf({{"a", 2}, {"b", 4}});
  mesh.axes.push_back({"big", INT64_MAX / 2});
  CHECK(UnevenDims(mesh, {8, 6, 3, 0}, {{"b"}, {"b"}, {"a"}, {"a", "b"}}) ==
        std::vector<size_t>{1, 2});
  CHECK(UnevenDims(mesh, {8}, {{"a", "b"}}).empty());
  CHECK(UnevenDims(mesh, {8}, {{"a", "b"}, {"a"}}).empty());
  // A product that does not fit in 64 bits divides no size but 0.
  CHECK(UnevenDims(mesh, {8, 0}, {{"big", "b"}, {"big", "b"}}) ==
        std::vector<size_t>{0});
  // An axis that the mesh lacks has size 1.
  CHECK(UnevenDims(mesh, {7}, {{"absent"}}).empty());
}

TEST_CASE("a shard has the rounded-up part of each dimension") {
  const Mesh mesh = MeshOf({{"dp", 2}, {"tp", 4}});
  CHECK(ShardShape(mesh, {8, 10}, {{"tp"}, {"dp"}}) == Shape{2, 5});
  CHECK(ShardShape(mesh, {9, 3}, {{"dp", "tp"}}) == Shape{2, 3});
  CHECK(ShardShape(mesh, {3}, {{"tp"}, {"dp"}}) == Shape{1});
  CHECK(ShardShape(mesh, {5, 5}, {{}, {"dp"}}) == Shape{5, 3});
  CHECK(ShardShape(mesh, {}, {}) == Shape{});
}

TEST_CASE("a shard far behind the end of a short dimension is empty") {
  // The product of its index and its share would not fit in 64 bits.
  const std::vector<int64_t> axes = {INT64_MAX};
  CHECK(RangeOfShard(INT64_MAX / 2, axes, INT64_MAX - 1).size == 0);
  CHECK(RangeOfShard(3, axes, 2) == ShardRange{2, 1});
  CHECK(RangeOfShard(3, axes, 3) == ShardRange{3, 0});
}

}  // namespace
}  // namespace shardc
