#include "picture/bars.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "draws.h"

namespace shardc::picture {
namespace {

TEST_CASE("the example of the squarified treemap's authors") {
  const std::vector<int64_t> weights = {6, 6, 4, 3, 2, 2, 1};
  const auto boxes = Squarify(weights, {0, 0, 6, 4});
  REQUIRE(boxes.size() == 7);
  // Two boxes of 3 x 2 are above each other. To their right, the boxes of
  // weight 4 and 3 are next to each other.
  CHECK(boxes[0].width == doctest::Approx(3));
  CHECK(boxes[0].height == doctest::Approx(2));
  CHECK(boxes[1].y == doctest::Approx(2));
  CHECK(boxes[2].x == doctest::Approx(3));
  CHECK(boxes[2].width == doctest::Approx(12.0 / 7));
  CHECK(boxes[2].height == doctest::Approx(7.0 / 3));
  CHECK(boxes[3].width == doctest::Approx(9.0 / 7));
}

TEST_CASE(
    "areas are proportional to weights, inside the box, without overlap") {
  Draws draws(18);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> weights(1 + draws() % 40);
    double sum = 0;
    for (int64_t& weight : weights) {
      weight = static_cast<int64_t>(draws() % 1'000'000'000 + 1);
      sum += static_cast<double>(weight);
    }
    std::sort(weights.begin(), weights.end(), std::greater<>());
    const Box all = {1, 2, 10.0 + static_cast<double>(draws() % 1000), 300};
    const auto boxes = Squarify(weights, all);
    REQUIRE(boxes.size() == weights.size());
    for (size_t i = 0; i < boxes.size(); ++i) {
      const Box& box = boxes[i];
      CHECK(box.width * box.height / (all.width * all.height) ==
            doctest::Approx(static_cast<double>(weights[i]) / sum));
      CHECK(box.x >= all.x - 1e-6);
      CHECK(box.y >= all.y - 1e-6);
      CHECK(box.x + box.width <= all.x + all.width + 1e-6);
      CHECK(box.y + box.height <= all.y + all.height + 1e-6);
      for (size_t k = 0; k < i; ++k) {
        const Box& other = boxes[k];
        const bool apart = box.x + 1e-9 >= other.x + other.width ||
                           other.x + 1e-9 >= box.x + box.width ||
                           box.y + 1e-9 >= other.y + other.height ||
                           other.y + 1e-9 >= box.y + box.height;
        CHECK(apart);
      }
    }
  }
}

TEST_CASE("a weight of 0 gets an empty box") {
  const std::vector<int64_t> some = {4, 0}, none = {0, 0};
  CHECK(Squarify(some, {0, 0, 2, 2})[1].width == 0);
  CHECK(Squarify(none, {0, 0, 2, 2}).size() == 2);
  CHECK(Squarify({}, {0, 0, 2, 2}).empty());
}

}  // namespace
}  // namespace shardc::picture
