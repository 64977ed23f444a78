#include "dense/attention.h"

#include <doctest/doctest.h>

#include <cmath>

namespace shardc::dense {
namespace {

// The expected numbers follow from the formulas of the models' own code. For
// dim 8 and base 10000 the frequencies are 1, 0.1, 0.01, 0.001.
Rope Base() {
  Rope rope;
  rope.base = 10000;
  return rope;
}

std::vector<double> Of(const Rope& rope, int64_t length = 64) {
  return Rotary(8, length, rope, Pairs::kHalves).frequencies();
}

void CheckAre(const std::vector<double>& got, std::vector<double> want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-12));
  }
}

TEST_CASE("frequencies, and how models stretch them") {
  CheckAre(Of(Base()), {1, 0.1, 0.01, 0.001});
  Rope rope = Base();
  rope.base = 16;
  CheckAre(Of(rope), {1, 0.5, 0.25, 0.125});
  rope.stretch = Stretch::kLinear;
  rope.factor = 4;
  CheckAre(Of(rope), {0.25, 0.125, 0.0625, 0.03125});

  // The wavelengths 6.28, 62.8, 628 and 6283 are compared with 1000/4 and
  // 1000/1: the first two frequencies are kept, the third is blended, the
  // fourth is divided.
  rope = Base();
  rope.stretch = Stretch::kLlama3;
  rope.factor = 8;
  rope.original_length = 1000;
  const double parts = 1000 / (2 * M_PI / 0.01);
  const double keep = (parts - 1) / 3;
  CheckAre(Of(rope), {1, 0.1, 0.01 * keep + 0.01 / 8 * (1 - keep), 0.001 / 8});

  // Over 4096 positions the pair with index 1.31 would make 32 turns and the
  // pair with index 2.81 one turn, so frequencies between index 1 and index 3
  // are blended.
  rope = Base();
  rope.stretch = Stretch::kYarn;
  rope.factor = 40;
  rope.original_length = 4096;
  CheckAre(Of(rope), {1, 0.1, 0.01 * 0.5 + 0.01 / 40 * 0.5, 0.001 / 40});
  const Rotary yarn(8, 64, rope, Pairs::kHalves);
  CHECK(yarn.amplitude() == doctest::Approx(0.1 * std::log(40.0) + 1));
  rope.amplitude = 1;
  CHECK(Rotary(8, 64, rope, Pairs::kHalves).amplitude() == 1);

  // At length 128, with an original length of 32, the base is multiplied by (2
  // * 4 - 1)^(8/6).
  rope = Base();
  rope.stretch = Stretch::kDynamic;
  rope.factor = 2;
  rope.original_length = 32;
  CheckAre(Of(rope, 32), Of(Base()));
  rope.base = 10000 * std::pow(7.0, 8.0 / 6);
  rope.stretch = Stretch::kNone;
  const std::vector<double> longer = Of(rope);
  rope = Base();
  rope.stretch = Stretch::kDynamic;
  rope.factor = 2;
  rope.original_length = 32;
  CheckAre(Of(rope, 128), longer);
}

TEST_CASE("pairs turn by their own frequency") {
  const Rotary halves(4, 8, Base(), Pairs::kHalves);
  std::vector<float> x = {1, 0, 0, 2};
  halves.Rotate(3, x);
  CHECK(x[0] == doctest::Approx(std::cos(3)));
  CHECK(x[2] == doctest::Approx(std::sin(3)));
  CHECK(x[1] == doctest::Approx(-2 * std::sin(0.03)));
  CHECK(x[3] == doctest::Approx(2 * std::cos(0.03)));
  const Rotary neighbours(4, 8, Base(), Pairs::kNeighbours);
  x = {1, 0, 0, 2};
  neighbours.Rotate(3, x);
  CHECK(x[0] == doctest::Approx(std::cos(3)));
  CHECK(x[1] == doctest::Approx(std::sin(3)));
  CHECK(x[2] == doctest::Approx(-2 * std::sin(0.03)));
  CHECK(x[3] == doctest::Approx(2 * std::cos(0.03)));
}

TEST_CASE("one number in double is what float32 comes near to") {
  Rope rope = Base();
  rope.amplitude = 1.25;
  for (const Pairs pairs : {Pairs::kHalves, Pairs::kNeighbours}) {
    const Rotary rotary(8, 4096, rope, pairs);
    const std::vector<float> x = {0.3f, -1, 2, 0.7f, -0.25f, 4, 1, -3};
    for (int64_t position : {0, 1, 77, 4095}) {
      std::vector<float> turned = x;
      rotary.Rotate(position, turned);
      for (int64_t d = 0; d < 8; ++d) {
        const Rotary::RotatedValue one = rotary.RotatedElement(position, x, d);
        const double error =
            std::abs(double{turned[static_cast<size_t>(d)]} - one.at);
        CHECK(error <= one.off);
        CHECK(one.off < 5e-6);
        // The tolerance detects an error of one position, since the next
        // position differs by more.
        const double next = rotary.RotatedElement(position + 1, x, d).at;
        CHECK(std::abs(next - one.at) > one.off);
      }
    }
  }
}

}  // namespace
}  // namespace shardc::dense
