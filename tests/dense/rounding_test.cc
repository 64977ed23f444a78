#include "dense/narrow.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dense/attention.h"
#include "exec/kernels/arithmetic.h"
#include "exec/machine/random.h"
#include "floats/convert.h"

namespace shardc::dense {
namespace {

TEST_CASE("the nearest number, ties to even") {
  CHECK(Nearest(Dtype::kBF16, 1 + 0x1p-8) == 1);
  CHECK(Nearest(Dtype::kBF16, 1 + 3 * 0x1p-8) == 1 + 0x1p-6);
  CHECK(Nearest(Dtype::kBF16, -1 - 0x1.01p-8) == -1 - 0x1p-7);
  CHECK(Nearest(Dtype::kF16, 1 + 0x1p-11) == 1);
  CHECK(Nearest(Dtype::kF16, 1 + 0x1.00001p-11) == 1 + 0x1p-10);
  CHECK(Nearest(Dtype::kF16, 65519.99) == 65504);
  CHECK(std::isinf(Nearest(Dtype::kF16, 65520)));
  CHECK(Nearest(Dtype::kF16, -0x1p-25) == 0);
  CHECK(Nearest(Dtype::kF16, 0x1.8p-24) == 0x1p-23);
  CHECK(Nearest(Dtype::kF32, 1 + 0x1p-24) == 1);
  CHECK(Nearest(Dtype::kF8E4M3, 1 + 0x1p-4) == 1);
  CHECK(Nearest(Dtype::kF8E4M3, -1 - 3 * 0x1p-4) == -1.25);
  CHECK(Nearest(Dtype::kF8E4M3, 463) == 448);
  CHECK(std::isinf(Nearest(Dtype::kF8E4M3, 465)));
  CHECK(Nearest(Dtype::kF8E4M3, 0x1.8p-9) == 0x1p-8);
  CHECK(Nearest(Dtype::kF8E5M2, 1 + 0x1p-3) == 1);
  CHECK(Nearest(Dtype::kF8E5M2, 1 + 3 * 0x1p-3) == 1.5);
  CHECK(Nearest(Dtype::kF8E5M2, 0x1p-17) == 0);
  CHECK(Nearest(Dtype::kF64, 0.1) == 0.1);
  CHECK(std::isnan(
      Nearest(Dtype::kBF16, std::numeric_limits<double>::quiet_NaN())));
}

// Compares the rounding of the dense reference with that of the executor, which
// share no code.
TEST_CASE("roundings are the program's") {
  const exec::Random random(7);
  for (uint64_t i = 0; i < 20000; ++i) {
    const double x =
        random.Normal(2 * i) *
        std::ldexp(1, static_cast<int>(random.Below(2 * i + 1, 60)) - 40);
    for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16, Dtype::kF32}) {
      CHECK(Nearest(dtype, x) == double{RoundTo(dtype, x)});
    }
  }
}

TEST_CASE("int8 rows by hand, and as the program stores them") {
  std::vector<float> x = {1, -0.5f, -1, 0.25f, 0};
  std::vector<int8_t> q(x.size());
  CHECK(ToInt8(x, q) == 1);
  CHECK(q == std::vector<int8_t>{127, -64, -128, 32, 0});
  StoreInt8(x);
  CHECK(x[1] == -64 / 127.5f);
  x.assign(5, 0);
  CHECK(ToInt8(x, q) == 0);
  CHECK(q == std::vector<int8_t>(5, 0));
  CHECK(FromInt8(0, 0) == 0);
  for (const float odd : {NAN, INFINITY, -INFINITY}) {
    for (size_t at = 0; at < x.size(); ++at) {
      CAPTURE(odd);
      CAPTURE(at);
      x = {1, -2, 3, 2, -1};
      x[at] = odd;
      const float scale = ToInt8(x, q);
      CHECK(std::isnan(scale) == std::isnan(odd));
      CHECK_FALSE(std::isfinite(scale));
      CHECK(q == std::vector<int8_t>(5, 0));
      std::vector<int8_t> stored(5, 1);
      exec::QuantizeInt8(x, stored);
      CHECK(stored == q);
    }
  }
  const exec::Random random(9);
  for (uint64_t row = 0; row < 2000; ++row) {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(random.Normal(row * 5 + i) *
                                (row % 3 == 0 ? 1e-40 : 1));
    }
    std::vector<int8_t> own(x.size());
    const float scale = ToInt8(x, own);
    CHECK(scale == exec::QuantizeInt8(x, q));
    CHECK(own == q);
    for (int8_t value : own) {
      CHECK(FromInt8(value, scale) == exec::DequantizeInt8(value, scale));
    }
  }
}

TEST_CASE("dropout's draws are the program's") {
  int64_t dropped = 0;
  for (int64_t i = 0; i < 4000; ++i) {
    // Every other seed has its highest bits set.
    const uint64_t from = 0x123456789abcu * static_cast<uint64_t>(i);
    const uint64_t seed = i % 2 == 0 ? from : ~from;
    const bool drops = Drops(seed, i % 5, i % 7, i - 2, 3 * i, 0.25);
    CHECK(drops != exec::KeepsWeight(seed, i % 5, i % 7, i - 2, 3 * i, 0.25));
    dropped += drops ? 1 : 0;
  }
  CHECK(dropped > 900);
  CHECK(dropped < 1100);
  CHECK_FALSE(Drops(1, 0, 0, 0, 0, 0));
  // For counter and key 0 the published first word is 6627e8d5.
  CHECK(Drops(0, 0, 0, 0, 0, 0x6627e8d6p-32));
  CHECK_FALSE(Drops(0, 0, 0, 0, 0, 0x6627e8d5p-32));
}

}  // namespace
}  // namespace shardc::dense
