#include "verify/judge/explain.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "floats/convert.h"

namespace shardc::verify {
namespace {

using dense::Array;

Array Line(std::vector<double> numbers) {
  Array out = Array::Zeros({1, 1, 1, static_cast<int64_t>(numbers.size())});
  out.data = std::move(numbers);
  return out;
}

TEST_CASE("a large output's rounding does not widen a small one's tolerance") {
  const Array reference = Line({4, 0.125});
  Limits limits;
  limits.base = 1e-6;
  limits.slack = SlackOf(Dtype::kBF16, reference);
  CHECK(limits.slack.data[0] == doctest::Approx(1.3 * 4 * 0x1p-8));
  const auto passes = [&](double a, double b) {
    const Judgement judged = JudgeOutput(Line({a, b}), reference, limits);
    return Within(judged.error.max_abs, judged.allowed);
  };
  CHECK(passes(4 + 0x1p-6, 0.125));
  CHECK(passes(4, 0.125 + 0x1p-11));
  CHECK_FALSE(passes(4, 0.125 + 0x1p-10));  // as truncation is off
  CHECK_FALSE(passes(4, 0.125 + 0x1p-8));   // an eighth of the tolerance at 4
  CHECK_FALSE(passes(4.1, 0.125));
  CHECK_FALSE(passes(0, 0));
}

TEST_CASE("the element furthest beyond its tolerance is reported") {
  const Array reference = Line({4, 0.125, 1});
  const Limits limits{SlackOf(Dtype::kBF16, reference), 1e-6};
  const Judgement judged =
      JudgeOutput(Line({4.02, 0.135, 1}), reference, limits);
  CHECK(judged.error.worst[3] == 1);
  CHECK(judged.error.max_abs == doctest::Approx(0.01));
  CHECK(judged.allowed == doctest::Approx(1.3 * 0x1p-11 + 1e-6));
}

TEST_CASE("errors are measured in these ways, and the worst has its position") {
  Array reference = Array::Zeros({2, 2, 1, 2});
  reference.data = {1, 2, 3, 4, 5, 6, 7, 8};
  Array got = reference;
  got.data[6] = 7.5;  // batch 1, token 1
  got.data[1] = 1.75;
  const ErrorOf error = CompareOutputs(got, reference);
  CHECK(error.max_abs == 0.5);
  CHECK(error.mean_abs == doctest::Approx(0.75 / 8));
  CHECK(error.relative_l2 ==
        doctest::Approx(std::sqrt((0.25 + 0.0625) / 204.0)));
  CHECK(error.worst[0] == 1);
  CHECK(error.worst[1] == 1);
  CHECK(error.worst[2] == 0);
  CHECK(error.worst[3] == 0);
  CHECK_FALSE(error.non_finite);
  // If the reference is zero, the relative error is the absolute one.
  CHECK(CompareOutputs(Line({3, 4}), Line({0, 0})).relative_l2 == 5);
  const ErrorOf none = CompareOutputs(reference, reference);
  CHECK(none.max_abs == 0);
  CHECK(none.mean_abs == 0);
  CHECK(none.worst[0] == 0);
  CHECK(CompareOutputs(Line({}), Line({})).mean_abs == 0);
}

TEST_CASE("a non-finite element never passes") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const Limits limits{Line({0, 0}), 1e-6};
  CHECK(JudgeOutput(Line({nan, 0}), Line({0, 0}), limits).error.non_finite);
  CHECK(JudgeOutput(Line({0, inf}), Line({0, 0}), limits).error.non_finite);
  const Judgement both = JudgeOutput(Line({inf, 0}), Line({inf, 0}), limits);
  CHECK_FALSE(both.error.non_finite);
  CHECK(Within(both.error.max_abs, both.allowed));
}

TEST_CASE("float32 has no slack, and the error beyond the slack is measured") {
  const Array reference = Line({1, 2});
  CHECK(SlackOf(Dtype::kF32, reference).data == std::vector<double>{0, 0});
  CHECK(BeyondSlack(Line({1.5, 2.25}), reference, Line({0.5, 0})) == 0.25);
  CHECK(BeyondSlack(Line({1, 2}), reference, Line({1, 1})) == 0);
}

// In 16 bits the only error of a correct program is the rounding of its output.
TEST_CASE(
    "an output that is rounded once is within four fifths of its tolerance") {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    for (double largest = 0.01; largest < 70; largest *= 1.01) {
      const Array reference = Line({largest, -largest / 3, largest / 100});
      Array rounded = reference;
      const double unit = UnitRoundoff(dtype);
      for (double& x : rounded.data) {
        x += unit * std::exp2(std::floor(std::log2(std::abs(x))));
      }
      const Limits limits{SlackOf(dtype, reference), ErrorFloor(largest),
                          ErrorCap(dtype, largest, 1)};
      const Judgement judged = JudgeOutput(rounded, reference, limits);
      CAPTURE(largest);
      CHECK(judged.error.max_abs <= 0.8 * judged.allowed);
    }
  }
}

TEST_CASE("tolerances are these numbers, and no wider") {
  CHECK(ErrorFloor(1) == 0x1p-20);
  CHECK(ErrorFloor(3) == 3 * 0x1p-20);
  CHECK(ErrorCap(Dtype::kF32, 1, 1) == 1e-5);
  CHECK(ErrorCap(Dtype::kF16, 1, 1) == 1e-3);
  CHECK(ErrorCap(Dtype::kBF16, 1, 1) == 1e-2);
  // The cap grows with outputs above 2 and, in float32, with logits above 8.
  CHECK(ErrorCap(Dtype::kF32, 4, 80) == doctest::Approx(2e-4));
  CHECK(ErrorCap(Dtype::kBF16, 4, 80) == doctest::Approx(1.3 * 4 * 0x1p-8));
  CHECK(ErrorCap(Dtype::kF16, 4, 80) == doctest::Approx(1.3 * 4 * 0x1p-11));
  CHECK(Within(1, 1));
  CHECK_FALSE(Within(1.0000001, 1));
  CHECK_FALSE(Within(std::numeric_limits<double>::quiet_NaN(), 1));
  Limits limits{Line({0.5, 0}), 0.25, 0.6};
  CHECK(limits.At(0) == 0.6);
  CHECK(limits.At(1) == 0.25);
  limits.ties = Line({0.1, 0.2});
  CHECK(limits.At(0) == 0.7);
  CHECK(SlackOf(Dtype::kF16, Line({1})).data[0] ==
        doctest::Approx(1.3 * 0x1p-11).epsilon(1e-4));
}

}  // namespace
}  // namespace shardc::verify
