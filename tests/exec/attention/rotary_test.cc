#include "exec/attention/rotary.h"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "exec/machine/random.h"

namespace shardc::exec {
namespace {

RopeFrequencies Of(int64_t dim, double base, int64_t length,
                   const RopeScaling& scaling) {
  std::string why;
  const auto f = Frequencies(dim, base, length, scaling, why);
  REQUIRE_MESSAGE(f, why);
  return *f;
}

using Points = std::vector<std::pair<size_t, double>>;

void CheckPoints(const RopeFrequencies& f, const Points& points) {
  for (const auto& point : points) {
    const size_t i = point.first;  // a binding could not be captured
    CAPTURE(i);
    CHECK(f.inverse[i] == doctest::Approx(point.second).epsilon(1e-12));
  }
}

TEST_CASE("plain and linear frequencies are those of the formula") {
  const RopeFrequencies plain = Of(8, 10000, 16, {});
  CheckPoints(plain, {{0, 1}, {1, 0.1}, {2, 0.01}, {3, 0.001}});
  RopeScaling linear;
  linear.kind = RopeKind::kLinear;
  linear.factor = 4;
  CheckPoints(Of(8, 10000, 16, linear), {{0, 0.25}, {3, 0.00025}});
}

TEST_CASE("dynamic grows the base only past the original length") {
  RopeScaling dynamic;
  dynamic.kind = RopeKind::kDynamic;
  dynamic.factor = 2;
  dynamic.original_length = 8;
  CheckPoints(Of(4, 100, 8, dynamic), {{0, 1}, {1, 0.1}});
  // The dynamic base is 100 * (2 * 16/8 - 1)^(4/2) = 900.
  CheckPoints(Of(4, 100, 16, dynamic), {{0, 1}, {1, 1.0 / 30}});
}

// The expected numbers were computed by other code, from the published
// definitions.
TEST_CASE("llama3 and yarn scale known frequencies") {
  RopeScaling llama;
  llama.kind = RopeKind::kLlama3;
  llama.factor = 8;
  llama.original_length = 8192;
  CheckPoints(Of(128, 500000, 131072, llama), {{0, 1},
                                               {28, 0.0032114459947525913},
                                               {30, 0.0013718935677611381},
                                               {34, 0.00017850781276799638},
                                               {36, 7.78465527393245e-05},
                                               {63, 3.068925988914511e-07}});
  RopeScaling yarn;
  yarn.kind = RopeKind::kYarn;
  yarn.factor = 16;
  yarn.original_length = 4096;
  const RopeFrequencies f = Of(128, 10000, 65536, yarn);
  CheckPoints(f, {{20, 0.056234132519034905},
                  {25, 0.02244714171356123},
                  {45, 0.00015177160473182487},
                  {63, 7.217387404309114e-06}});
  CHECK(f.amplitude == doctest::Approx(1.2772588722239782));
}

TEST_CASE("longrope chooses its factors by length") {
  RopeScaling scaling;
  scaling.kind = RopeKind::kLongRope;
  scaling.original_length = 4;
  scaling.short_factors = {1, 1.125};
  scaling.long_factors = {1, 1.25};
  RopeFrequencies f = Of(4, 10000, 8, scaling);
  CheckPoints(f, {{0, 1}, {1, 0.01 / 1.25}});
  CHECK(f.amplitude == doctest::Approx(std::sqrt(1.5)));
  f = Of(4, 10000, 4, scaling);
  CheckPoints(f, {{0, 1}, {1, 0.01 / 1.125}});
  CHECK(f.amplitude == 1);
  scaling.attention_factor = 3;
  CHECK(Of(4, 10000, 4, scaling).amplitude == 3);
}

TEST_CASE("settings that cannot be used are refused") {
  struct Case {
    int64_t dim;
    double base;
    RopeScaling scaling;
    const char* why;
  };
  RopeScaling dynamic, yarn, longrope, llama, zero;
  dynamic.kind = RopeKind::kDynamic;
  yarn.kind = RopeKind::kYarn;
  longrope.kind = RopeKind::kLongRope;
  longrope.original_length = 8;
  longrope.short_factors = {1};
  llama.kind = RopeKind::kLlama3;
  llama.original_length = 8;
  llama.high_frequency_factor = 1;
  zero.factor = 0;
  const Case cases[] = {
      {3, 100, {}, "rotary dim 3 is not even and positive"},
      {4, 1, {}, "the rotary base is not above 1"},
      {4, 100, zero, "the rotary scaling factor is not positive"},
      {2, 100, dynamic, "dynamic rotary scaling has no exponent for dim 2"},
      {4, 100, yarn, "rotary scaling needs the original length"},
      {4, 100, longrope,
       "longrope needs 2 short and long factors, got 1 and 0"},
      {4, 100, llama,
       "llama3 rotary scaling needs high_freq_factor above low_freq_factor"},
  };
  for (const Case& c : cases) {
    std::string why;
    CHECK_FALSE(Frequencies(c.dim, c.base, 16, c.scaling, why));
    CHECK(why == c.why);
  }
  // yarn needs an original length of at least two positions.
  std::string why;
  yarn.original_length = 1;
  CHECK_FALSE(Frequencies(4, 100, 16, yarn, why));
  yarn.original_length = 2;
  CHECK(Frequencies(4, 100, 16, yarn, why));
  CHECK(ParseRopeKind("su") == RopeKind::kLongRope);
  CHECK_FALSE(ParseRopeKind("spiral"));
}

TEST_CASE("halves are rotated, and odd sizes split at the floor") {
  const auto turned = [](std::vector<float> x) {
    std::vector<float> out(x.size());
    RotateHalf(x, out);
    return out;
  };
  CHECK(turned({1, 2, 3, 4}) == std::vector<float>{-3, -4, 1, 2});
  CHECK(turned({1, 2, 3}) == std::vector<float>{-2, -3, 1});
}

TEST_CASE("products depend on the difference of positions alone") {
  const RopeFrequencies f = Of(16, 10000, 64, {});
  const Random random(3);
  using Apply = void (*)(std::span<float>, std::span<const float>,
                         std::span<const float>);
  for (Apply apply : {Apply{ApplyRotary}, Apply{ApplyRotaryInterleaved}}) {
    const auto product = [&](int64_t pq, int64_t pk) {
      std::vector<float> q(16), k(16);
      for (uint64_t i = 0; i < 16; ++i) {
        q[i] = static_cast<float>(random.Normal(i));
        k[i] = static_cast<float>(random.Normal(i + 16));
      }
      const RopeRow rq = RowAt(f, pq), rk = RowAt(f, pk);
      apply(q, rq.sin, rq.cos);
      apply(k, rk.sin, rk.cos);
      double sum = 0;
      for (size_t i = 0; i < 16; ++i) sum += double{q[i]} * k[i];
      return sum;
    };
    CHECK(product(5, 3) == doctest::Approx(product(45, 43)).epsilon(1e-5));
    CHECK(std::abs(product(5, 3) - product(5, 4)) > 1e-3);
  }
}

TEST_CASE("the two conventions are each other's permutation") {
  const RopeFrequencies f = Of(4, 100, 8, {});
  const RopeRow row = RowAt(f, 3);
  std::vector<float> halves{1, 2, 3, 4}, pairs{1, 3, 2, 4};
  ApplyRotary(halves, row.sin, row.cos);
  ApplyRotaryInterleaved(pairs, row.sin, row.cos);
  CHECK(pairs ==
        std::vector<float>{halves[0], halves[2], halves[1], halves[3]});
}

}  // namespace
}  // namespace shardc::exec
