#include "exec/machine/random.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace shardc::exec {
namespace {

using Words = std::array<uint32_t, 4>;

TEST_CASE("philox gives the known answers") {
  CHECK(Philox({0, 0, 0, 0}, {0, 0}) ==
        Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffff;
  CHECK(Philox({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
               {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("streams are reproducible and differ") {
  const Random root(7);
  CHECK(root.Bits(3) == Random(7).Bits(3));
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 100; ++i) {
    seen.insert(root.Bits(i));
    seen.insert(root.Split(i).Bits(i));
    seen.insert(root.Split(std::to_string(i)).Bits(i));
  }
  CHECK(seen.size() == 300);
}

TEST_CASE("random numbers have the stated moments and ranges") {
  const Random r(11);
  const int n = 20000;
  double mean = 0, square = 0, uniform = 0;
  for (int i = 0; i < n; ++i) {
    const double x = r.Normal(i), u = r.Split(1).Uniform(i);
    CHECK((u >= 0 && u < 1));
    mean += x / n;
    square += x * x / n;
    uniform += u / n;
  }
  CHECK(std::abs(mean) < 0.03);
  CHECK(std::abs(square - 1) < 0.05);
  CHECK(std::abs(uniform - 0.5) < 0.01);
  RandomSequence sequence(r);
  std::set<int64_t> values;
  for (int i = 0; i < 200; ++i) values.insert(sequence.Between(-2, 2));
  CHECK(values == std::set<int64_t>{-2, -1, 0, 1, 2});
}

TEST_CASE("normal numbers are the same one by one and in blocks of any size") {
  const Random r(13);
  for (const size_t count : {0, 1, 31, 32, 33, 100}) {
    std::vector<std::array<double, 2>> block(count);
    r.FillNormals(5, block);
    for (size_t i = 0; i < count; ++i) CHECK(block[i] == r.Normals(5 + i));
  }
}

TEST_CASE("dropout follows the rate and each part of the key") {
  int kept = 0;
  for (int64_t pk = 0; pk < 10000; ++pk) {
    kept += KeepsWeight(1, 0, 0, 0, pk, 0.25);
  }
  CHECK(std::abs(kept - 7500) < 200);
  const auto pattern = [](uint64_t seed, int64_t b, int64_t h, int64_t pq) {
    uint64_t bits = 0;
    for (int64_t pk = 0; pk < 64; ++pk) {
      bits = bits * 2 + KeepsWeight(seed, b, h, pq, pk, 0.5);
    }
    return bits;
  };
  CHECK(std::set<uint64_t>{pattern(1, 0, 0, 0), pattern(2, 0, 0, 0),
                           pattern(1, 1, 0, 0), pattern(1, 0, 1, 0),
                           pattern(1, 0, 0, 1)}
            .size() == 5);
  CHECK(KeepsWeight(1, 2, 3, 4, 5, 0));
}

}  // namespace
}  // namespace shardc::exec
