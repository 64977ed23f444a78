// Tests the Pareto front of time and memory, and which of several ties it
// keeps.
#include "search/front.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace shardc::search {
namespace {

Point At(double seconds, int64_t bytes, uint32_t candidate = 0) {
  return {candidate, 0, seconds, bytes};
}

TEST_CASE("a point is on the front if none is better in time and memory") {
  const auto front = FrontOf({At(1.2, 50), At(1, 80), At(1.1, 90), At(1.25, 40),
                              At(1.2, 45), At(1.31, 10)});
  REQUIRE(front.size() == 3);
  CHECK(front[0].bytes == 80);
  CHECK(front[1].bytes == 45);
  CHECK(front[2].bytes == 40);
}

TEST_CASE("of equal points the first of the space is on the front") {
  const auto front = FrontOf({At(1, 80, 7), At(1, 80, 3), At(1, 80, 5)});
  REQUIRE(front.size() == 1);
  CHECK(front[0].candidate == 3);
}

TEST_CASE("one point is shown for each twelfth of the memory") {
  const auto front = FrontOf(
      {At(1, 119), At(1.01, 118), At(1.02, 109), At(1.1, 101), At(1.2, 55)});
  CHECK(Thinned(front, 120) == std::vector<size_t>{0, 2, 4});
}

}  // namespace
}  // namespace shardc::search
