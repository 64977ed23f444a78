#include "verify/cases/reduced_sizes.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace shardc::verify {
namespace {

TEST_CASE("reduced heads keep the structure and no more") {
  struct Row {
    int64_t heads, keys, a, c, want_heads, want_keys;
  };
  const Row rows[] = {
      {32, 8, 8, 8, 16, 8},  {64, 8, 8, 8, 16, 8}, {28, 4, 4, 4, 8, 4},
      {32, 4, 16, 1, 32, 4}, {8, 8, 1, 1, 1, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.heads);
    CAPTURE(row.a);
    const auto [h, k] = ReducedHeads(row.heads, row.keys, {{row.a, row.c}});
    CHECK(h <= row.heads);
    CHECK(h % k == 0);
    CHECK((h % row.a == 0) == (row.heads % row.a == 0));
    CHECK((k % row.c == 0) == (row.keys % row.c == 0));
    if (row.heads != 8) {
      CHECK(h == row.want_heads);
      CHECK(k == row.want_keys);
    }
  }
}

TEST_CASE("reduced lengths divide as the real ones do") {
  for (int64_t real = 1; real <= 200; ++real) {
    for (int64_t n : {1, 2, 3, 4, 8}) {
      const int64_t small = ReducedLength(real, {n});
      CHECK(small <= real);
      CHECK((small % n == 0) == (real % n == 0));
      CHECK((small % (2 * n) == 0) == (real % (2 * n) == 0));
      CHECK((small == 1) == (real == 1));
      CHECK(std::min<int64_t>(small / n, 4) == std::min<int64_t>(real / n, 4));
    }
  }
  CHECK(ReducedLength(8192, {4}) == 16);
  CHECK(ReducedLength(1, {4}) == 1);
}

TEST_CASE("a query that is shorter than its keys stays so") {
  Sizes real{4, 128, 4096, 32, 8, 128, 0};
  const Sizes small = ReducedSizes(real, {{2}, {2}, {{2, 2}}, {1}});
  CHECK(small.query_length < small.key_length);
  CHECK(small.head_dim == 16);
  CHECK(small.batch == 4);
}

}  // namespace
}  // namespace shardc::verify
