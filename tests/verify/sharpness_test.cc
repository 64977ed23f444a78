// Tests the functions that make wrong outputs of attention, such as zeros, and
// the tolerance that must refuse them. tests/detected_faults_test.py checks
// that verification refuses each wrong output in every case of its matrix, and
// how many cases and wrong outputs there are.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "verify/judge/wrong_outputs.h"

namespace shardc::verify {
namespace {

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
