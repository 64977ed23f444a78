#include "picture/bars.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "draws.h"

namespace shardc::picture {
namespace {

TEST_CASE("a bar ends at its sum, and every part with bytes has a cell") {
  Draws draws(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> parts(1 + draws() % 7);
    for (int64_t& part : parts) {
      part = draws() % 4 == 0 ? 0 : static_cast<int64_t>(draws() % 1'000'000);
    }
    const int64_t sum = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    const int64_t scale =
        ScaleOf(static_cast<int64_t>(draws() % 2'000'000), sum);
    const int64_t width = 1 + static_cast<int64_t>(draws() % 80);
    const auto cells = CellsOf(parts, scale, width);
    const int64_t all = std::accumulate(cells.begin(), cells.end(), int64_t{0});
    CHECK(all == CellsOf(sum, scale, width));
    int64_t some = 0;
    for (int64_t part : parts) some += part > 0 ? 1 : 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      CHECK(cells[i] >= 0);
      if (parts[i] == 0) CHECK(cells[i] == 0);
      if (parts[i] > 0 && all >= some) CHECK(cells[i] > 0);
    }
  }
}

TEST_CASE("bytes near 2^63 are drawn like any others") {
  CHECK(ScaleOf(INT64_MAX, 1) == INT64_MAX);
  CHECK(CellsOf(INT64_MAX, INT64_MAX, 40) == 40);
  const std::vector<int64_t> parts = {INT64_MAX, INT64_MAX};
  CHECK(CellsOf(parts, INT64_MAX, 10) == std::vector<int64_t>{9, 1});
}

}  // namespace
}  // namespace shardc::picture
