#include "verify/sharpness.h"

#include <doctest/doctest.h>

#include <string>

#include "verify/judge/wrong_outputs.h"
#include "verify/score.h"

namespace shardc::verify {
namespace {

TEST_CASE("every wrong output is refused in every case of the matrix") {
  const Sharpness sharpness = OfferWrongOutputs(2);
  for (const std::string& what : sharpness.unsound) FAIL_CHECK(what);
  for (const std::string& what : sharpness.taken) FAIL_CHECK(what);
  CHECK(sharpness.Holds());
  // The cases are all combinations of operations, modes, layouts, dtypes,
  // features and roundings. The numbers are exact, so that a missing
  // combination is detected; an added one changes them.
  CHECK(sharpness.cases == 3490);
  CHECK(sharpness.offered == 25900);
  MESSAGE(SharpnessText(sharpness));
}

TEST_CASE("a tolerance as wide as the output accepts zeros") {
  dense::Array reference = dense::Array::Zeros({1, 2, 1, 2});
  reference.data = {1, -1, 0.5, 0.25};
  Limits limits{dense::Array::Zeros(reference.shape), 1};
  WrongOutputs wrong;
  OfferShifted(reference, limits, wrong);
  CHECK(wrong.offered == 3);
  CHECK(wrong.taken == std::vector<std::string>{"zeros"});
  limits.base = 0.1;
  wrong = {};
  OfferShifted(reference, limits, wrong);
  CHECK(wrong.taken.empty());
}

TEST_CASE("the key that is removed is a visible one") {
  dense::Inputs in;
  in.query = dense::Array::Zeros({1, 1, 1, 1});
  in.key = in.value = dense::Array::Zeros({1, 4, 1, 1});
  in.key_lengths = {3};
  in.key_starts = {1};
  const auto last = OneKeyShort(in, {}, true);
  REQUIRE(last);
  CHECK(last->key_positions == std::vector<int64_t>{0, 1, -1, 3});
  const auto first = OneKeyShort(in, {}, false);
  REQUIRE(first);
  CHECK(first->key_positions == std::vector<int64_t>{0, -1, 2, 3});
  in.key_lengths = {1};
  CHECK_FALSE(OneKeyShort(in, {}, true));
}

}  // namespace
}  // namespace shardc::verify
