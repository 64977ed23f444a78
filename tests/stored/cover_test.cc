#include "stored/box.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "source/size.h"

namespace shardc::stored {
namespace {

TEST_CASE("cover: gaps, overlaps and boxes outside are reported") {
  const Shape shape = {4, 4};
  CHECK_FALSE(WhyNotCovered(shape, {{{0, 0}, {4, 4}}}));
  CHECK_FALSE(WhyNotCovered(shape, {{{0, 0}, {3, 4}}, {{3, 0}, {1, 4}}}));
  CHECK(WhyNotCovered(shape, {{{0, 0}, {3, 4}}}) ==
        "the shards hold 12 of 16 elements");
  CHECK(WhyNotCovered(shape, {{{0, 0}, {3, 4}}, {{2, 0}, {2, 4}}}) ==
        "shards overlap: they hold 20 of 16 elements");
  CHECK(WhyNotCovered(shape, {{{0, 0}, {3, 4}}, {{2, 0}, {1, 4}}}) ==
        "two shards overlap, and as many elements are in none");
  CHECK(WhyNotCovered(shape, {{{0, 1}, {4, 4}}}) ==
        "the shard [0:4, 1:5] ends outside the shape [4, 4]");
  CHECK_FALSE(WhyNotCovered({}, {{{}, {}}}));
  CHECK(WhyNotCovered({}, {}) == "the shards hold 0 of 1 element");
  CHECK_FALSE(WhyNotCovered({0, 4}, {}));
}

TEST_CASE("cover: shards around a middle shard, which no line divides") {
  const std::vector<Box> boxes = {{{0, 0}, {1, 2}},
                                  {{0, 2}, {2, 1}},
                                  {{2, 1}, {1, 2}},
                                  {{1, 0}, {2, 1}},
                                  {{1, 1}, {1, 1}}};
  CHECK_FALSE(WhyNotCovered({3, 3}, boxes));
}

// Returns whether the boxes cover the array, by counting the boxes over every
// element.
bool CoversByCounting(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<int> over(AsIndex(shape[0] * shape[1]), 0);
  for (const Box& box : boxes) {
    for (int64_t i = 0; i < box.shape[0]; ++i) {
      for (int64_t j = 0; j < box.shape[1]; ++j) {
        ++over[AsIndex((box.offset[0] + i) * shape[1] + box.offset[1] + j)];
      }
    }
  }
  for (const int count : over) {
    if (count != 1) return false;
  }
  return true;
}

TEST_CASE("cover: random boxes are judged as by counting") {
  std::mt19937 random(7);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int covered = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    const Shape shape = {draw(1, 3), draw(1, 3)};
    std::vector<Box> boxes;
    const int64_t count = draw(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      Box box;
      for (const int64_t size : shape) {
        box.offset.push_back(draw(0, size - 1));
        box.shape.push_back(draw(1, size - box.offset.back()));
      }
      boxes.push_back(box);
    }
    const bool wanted = CoversByCounting(shape, boxes);
    covered += wanted ? 1 : 0;
    CHECK(!WhyNotCovered(shape, boxes) == wanted);
  }
  CHECK(covered > 500);
}

TEST_CASE("cover: 100,000 shards are compared at once") {
  std::vector<Box> boxes;
  for (int64_t i = 0; i < 1000; ++i) {
    for (int64_t j = 0; j < 100; ++j) boxes.push_back({{i, 7 * j}, {1, 7}});
  }
  CHECK_FALSE(WhyNotCovered({1000, 700}, boxes));
  boxes[5].offset[1] += 1;
  CHECK(WhyNotCovered({1000, 700}, boxes));
}

}  // namespace
}  // namespace shardc::stored
