#include "verify/cases/reduced_sizes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

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
    Splits splits;
    splits.heads = {{row.a, row.c}};
    const auto [h, k] = ReducedHeads(row.heads, row.keys, splits);
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

// Returns the properties that must be equal for real and reduced heads, with
// query heads over `a` devices and key heads over `c`. Written independently of
// the code that reduces sizes.
std::string StructureOf(int64_t heads, int64_t keys, int64_t a, int64_t c) {
  std::string out;
  const auto add = [&](std::string_view what, bool holds) {
    if (holds) out += std::string(what) + " ";
  };
  add("a|H", heads % a == 0);
  add("a|K", keys % a == 0);
  add("c|K", keys % c == 0);
  add("K=1", keys == 1);
  add("H=K", heads == keys);
  if (heads % a != 0 || keys % c != 0) return out;
  const int64_t own = heads / a, own_keys = keys / c, group = heads / keys;
  add("h=1", own == 1);
  add("k=1", own_keys == 1);
  add("G|h", own % group == 0);
  add("h|G", group % own == 0);
  add("k|h", own % own_keys == 0);
  add("h>k", own > own_keys);
  add("h=G", own == group);
  return out;
}

TEST_CASE("reduced heads keep all of their structure") {
  std::set<std::string> seen;
  for (int64_t heads = 1; heads <= 64; ++heads) {
    for (int64_t keys = 1; keys <= heads; ++keys) {
      if (heads % keys != 0) continue;
      for (const int64_t a : {1, 2, 3, 4, 8}) {
        for (const int64_t c : {1, 2, 4}) {
          Splits splits;
          splits.heads = {{a, c}};
          const auto [h, k] = ReducedHeads(heads, keys, splits);
          const std::string want = StructureOf(heads, keys, a, c);
          CAPTURE(heads);
          CAPTURE(keys);
          CAPTURE(a);
          CAPTURE(c);
          CHECK(StructureOf(h, k, a, c) == want);
          CHECK(StructureOf(h, k, 1, 1) == StructureOf(heads, keys, 1, 1));
          seen.insert(want);
        }
      }
    }
  }
  CHECK(seen.size() > 40);
}

TEST_CASE("reduced batches and dims keep their parts") {
  for (int64_t real = 1; real <= 96; ++real) {
    for (const int64_t n : {1, 2, 3, 4, 8}) {
      Splits splits;
      splits.batch = splits.dim = {n};
      const int64_t batch =
          ReducedSizes({real, 1, 1, 1, 1, 16, 0}, splits).batch;
      CHECK((batch == 1) == (real == 1));
      CHECK((batch % n == 0) == (real % n == 0));
      CHECK(std::min<int64_t>(batch / n, 2) == std::min<int64_t>(real / n, 2));
      const int64_t dim =
          ReducedSizes({1, 1, 1, 1, 1, real, 0}, splits).head_dim;
      CHECK((dim % 2 == 0) == (real % 2 == 0));
      CHECK((dim % n == 0) == (real % n == 0));
      CHECK((dim % (2 * n) == 0) == (real % (2 * n) == 0));
      CHECK((dim / n >= 16) == (real / n >= 16));
    }
  }
}

// Returns the reduced length of one row of self-attention.
int64_t ReducedLength(int64_t real, int64_t split) {
  Splits splits;
  splits.length = {split};
  return ReducedSizes({1, real, real, 8, 8, 16, 0}, splits).key_length;
}

TEST_CASE("reduced lengths divide as the real ones do") {
  for (int64_t real = 1; real <= 200; ++real) {
    for (int64_t n : {1, 2, 3, 4, 8}) {
      const int64_t small = ReducedLength(real, n);
      CHECK(small <= real);
      CHECK((small % n == 0) == (real % n == 0));
      CHECK((small % (2 * n) == 0) == (real % (2 * n) == 0));
      CHECK((small == 1) == (real == 1));
      CHECK(std::min<int64_t>(small / n, 4) == std::min<int64_t>(real / n, 4));
    }
  }
  CHECK(ReducedLength(8192, 4) == 16);
  CHECK(ReducedLength(1, 4) == 1);
}

TEST_CASE("a query that is shorter than its keys stays so") {
  Sizes real{4, 128, 4096, 32, 8, 128, 0};
  const Sizes small = ReducedSizes(real, {{2}, {2}, {{2, 2}}, {1}});
  CHECK(small.query_length < small.key_length);
  CHECK(small.head_dim == 16);
  CHECK(small.batch == 4);
}

TEST_CASE("packed tokens divide as the real ones do") {
  Splits splits;
  splits.batch = splits.tokens = {2};
  splits.length = {1};
  for (int64_t batch = 1; batch <= 9; ++batch) {
    for (int64_t length = 8; length <= 40; ++length) {
      const Sizes real{batch, length, length, 4, 4, 16, 0};
      const Sizes small = ReducedSizes(real, splits);
      CHECK((small.batch % 2 == 0) == (batch % 2 == 0));
      const int64_t tokens = small.batch * small.key_length;
      CHECK((tokens % 4 == 0) == (batch * length % 4 == 0));
      CHECK((tokens % 2 == 0) == (batch * length % 2 == 0));
      CHECK(small.query_length == small.key_length);
    }
  }
}

TEST_CASE("heads that lengths are exchanged for keep their divisibility") {
  // An all_to_all divides six key heads by four devices: neither number divides
  // the other.
  Splits splits;
  splits.heads = {{1, 1}};
  splits.exchanges = {{.heads = 1, .keys = 1, .parts = 4}};
  const auto [h, k] = ReducedHeads(24, 6, splits);
  CHECK(h % 4 == 0);
  CHECK(k % 4 != 0);
  CHECK(4 % k != 0);
  CHECK(ReducedHeads(24, 2, splits).second <= 2);
}

TEST_CASE("pages' words of heads split as the real ones do") {
  Splits splits;
  splits.heads = {{4, 4}};
  splits.words = {{4, 4}};
  const auto reduced = [&](int64_t dim) {
    return ReducedSizes({1, 1, 1, 64, 32, dim, 0}, splits).head_dim;
  };
  // 64 dims are kept, because keys and values then share a row. 128 dims are
  // reduced, but never to 64.
  CHECK(reduced(64) == 64);
  CHECK(reduced(128) == 16);
  // Words of 4 heads over 4 devices: with 16 key heads or more each device has
  // complete words; with 4 it has a quarter of one.
  CHECK(ReducedHeads(64, 32, splits).second == 16);
  CHECK(ReducedHeads(32, 4, splits).second == 4);
}

TEST_CASE("LengthLike keeps the divisibility of a length") {
  CHECK(LengthLike(256, 18, {3}) == 19);
  CHECK(LengthLike(256, 18, {4, 8}) == 24);
  CHECK(LengthLike(600, 600, {4}) == 600);
  CHECK(LengthLike(5, 4, {1}) == 4);
}

}  // namespace
}  // namespace shardc::verify
