#include "exec/kernels/arithmetic.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

namespace shardc::exec {
namespace {

TEST_CASE("a logit is capped before its bias is added") {
  CHECK(CapThenBias(5, 0, 2) == 7);
  CHECK(CapThenBias(5, 3, 2) == 3 * std::tanh(5.0f / 3) + 2);
}

TEST_CASE("each step of an online softmax follows the formula") {
  const Arithmetic& right = kRightArithmetic;
  std::array<float, 2> out = {1, 2};
  const std::array<float, 2> value = {10, 20};
  float sum = 3;
  CHECK(right.reference(7) == 7);
  right.rescale(0.5f, sum, out);
  CHECK(sum == 1.5f);
  CHECK(out == std::array<float, 2>{0.5f, 1});
  right.absorb(2, 1, value.data(), sum, out);
  CHECK(sum == 3.5f);
  CHECK(out == std::array<float, 2>{10.5f, 21});
  // A key that dropout removes adds its weight to the sum, as a sink does, but
  // adds nothing to the output.
  right.absorb(2, 0, value.data(), sum, out);
  right.absorb_sink(1, sum, out);
  CHECK(sum == 6.5f);
  CHECK(out == std::array<float, 2>{10.5f, 21});
}

TEST_CASE("a factor of one leaves infinities and NaNs as they are") {
  std::array<float, 1> out = {INFINITY};
  float sum = NAN;
  kRightArithmetic.rescale(1, sum, out);
  CHECK(std::isnan(sum));
  CHECK(out[0] == INFINITY);
}

TEST_CASE("numbers are stored once rounded, and the lowest are finite") {
  const Arithmetic& right = kRightArithmetic;
  CHECK(right.store(Dtype::kBF16, 1.00390625f) == 1.0f);
  CHECK(right.store(Dtype::kF32, 1.00390625f) == 1.00390625f);
  CHECK(right.lowest(Dtype::kF16) == -65504.0f);
  CHECK(right.lowest(Dtype::kBF16) == -0x1.fep127f);
}

TEST_CASE("rows of few bits have their own scale") {
  const Arithmetic& right = kRightArithmetic;
  const std::array<float, 3> x = {-2, 0, 2};
  std::array<int8_t, 3> q{};
  CHECK(right.largest(x) == 2);
  CHECK(right.quantise(x, 2, q) == 2);
  CHECK(q == std::array<int8_t, 3>{-128, 0, 127});
  CHECK(right.scale(x, 2) == 2);
  CHECK(right.unscale(6, 0.5, 0.25) == 0.75);
}

TEST_CASE("the kernels run only with the correct softmax") {
  Arithmetic other;
  CHECK(other.InKernels());
  other.scale = [](std::span<const float> scales, size_t) { return scales[0]; };
  other.store = [](Dtype, float x) { return x; };
  CHECK(other.InKernels());
  Arithmetic logits, references, rescaled, absorbed;
  logits.logit = [](float product, float, float) { return product; };
  references.reference = [](float) { return 0.0f; };
  rescaled.rescale = [](float, float&, std::span<float>) {};
  absorbed.absorb = [](float, float, const float*, float&, std::span<float>) {};
  for (const Arithmetic& wrong : {logits, references, rescaled, absorbed}) {
    CHECK_FALSE(wrong.InKernels());
  }
}

}  // namespace
}  // namespace shardc::exec
