#include "dense/narrow.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "verify/cases/grid.h"
#include "verify/judge/run_case.h"
#include "verify/sharpness.h"

namespace shardc::verify {
namespace {

using dense::Array;

struct Row {
  const char* operation;
  int bits;
  Dtype softmax;
};
constexpr Row kRows[] = {
    {"vanilla", 8, Dtype::kF32},     {"vanilla", 4, Dtype::kF32},
    {"sdpa", 0, Dtype::kBF16},       {"vanilla", 0, Dtype::kF16},
    {"vanilla", 8, Dtype::kBF16},    {"sdpa", 4, Dtype::kF16},
    {"flash_attn2", 4, Dtype::kF32},
};

Case CaseOf(const Row& row, uint64_t seed) {
  Case test;
  test.operation = exec::FindOperation(row.operation);
  test.mesh = MeshOf({{"tp", 2}});
  test.sizes = {2, 8, 16, 4, 2, 16, 0};
  test.seed = seed;
  test.features.causal = seed % 2 == 0;
  if (seed % 3 == 0) test.features.sinks_rank = 1;
  if (seed % 5 == 0) test.features.dropout = 0.25;
  test.settings.dot_bits = row.bits;
  test.settings.softmax_dtype = row.softmax;
  test.settings.blocksize_k = 5;
  return test;
}

TEST_CASE("narrow arithmetic is judged as sharply as float32") {
  for (const Row& row : kRows) {
    CAPTURE(row.operation);
    CAPTURE(row.bits);
    CAPTURE(DtypeName(row.softmax));
    double widest = 0;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      CAPTURE(seed);
      WrongOutputs wrong;
      RunOptions options;
      options.passed = [&wrong](const PassedOutput& passed) {
        OfferWrong(passed, wrong);
      };
      const CaseResult result = RunCase(CaseOf(row, seed), options);
      CHECK(result.reason == "");
      REQUIRE(result.status == Status::kPass);
      CHECK(result.error.max_abs <= result.tolerance);
      CHECK(wrong.offered == 8);
      for (const std::string& taken : wrong.taken) FAIL_CHECK(taken);
      // Only elements near a tie may differ by a step, so a few tolerances are
      // large.
      widest = std::max(widest, result.tolerance);
    }
    MESSAGE(row.operation << " " << row.bits << " bits, softmax "
                          << DtypeName(row.softmax) << ": widest allowed "
                          << widest);
  }
}

TEST_CASE("an operand or a weight that is larger by one integer is detected") {
  for (const Row& row : kRows) {
    if (row.bits == 0) continue;
    CAPTURE(row.operation);
    Case test = CaseOf(row, 4);
    test.features.dropout = 0;
    RunOptions options;
    options.replace_inputs = [](const auto&, const auto&, auto&,
                                auto& settings) {
      // The fault: operands have 4 bits instead of 8, or 8 instead of 4, and
      // therefore another step.
      settings.dot_bits = settings.dot_bits == 8 ? 4 : 8;
    };
    CHECK(RunCase(test, options).status == Status::kFail);
  }
}

// Returns inputs of one query and two keys of one dim, whose results can be
// computed by hand.
dense::Inputs Small(double second_logit, double first_value,
                    double second_value) {
  dense::Inputs in;
  in.query = in.key = in.value = Array::Zeros({1, 1, 1, 1});
  in.query.data = {1};
  in.key = in.value = Array::Zeros({1, 2, 1, 1});
  in.key.data = {0, second_logit};
  in.value.data = {first_value, second_value};
  return in;
}

TEST_CASE("weights equal those worked out by hand") {
  dense::Options options;
  options.scale = 1;
  dense::Narrow narrow;
  narrow.softmax = Dtype::kBF16;
  std::string why;
  // In bfloat16 e^-1 = 0.36788 is 0.3671875, the sum is 1.3671875, and the
  // quotients 0.7314.. and 0.2686.. are 0.73046875 and 0.26953125.
  auto got = dense::NarrowAttention(Small(-1, 1, 0), options, narrow, why);
  REQUIRE(got);
  CHECK(got->output.data[0] == 0.73046875);
  CHECK(got->slack.data[0] == 0);
  got = dense::NarrowAttention(Small(-1, 0, 1), options, narrow, why);
  CHECK(got->output.data[0] == 0.26953125);

  // 4 bits: the second logit is -(7 / 7.5)^2 = -0.871. The weights w and
  // w * exp(-0.871) become 7 and round(7.5 * exp(-0.871)) = 3 steps of w / 7.5.
  narrow = {};
  narrow.bits = 4;
  got = dense::NarrowAttention(Small(-1, 0, 1), options, narrow, why);
  REQUIRE(got);
  const double logit =
      -7.0 / 7.5 * 7.0 / 7.5;  // both operands lose half a step
  const double weight = 1 / (1 + std::exp(logit));
  const double steps = std::nearbyint(7.5 * std::exp(logit));
  CHECK(got->output.data[0] ==
        doctest::Approx(steps * weight / 7.5 * 7 / 7.5).epsilon(1e-12));
  CHECK(got->slack.data[0] < 1e-5);
}

TEST_CASE("a tie widens the tolerance by a step, and nothing else does") {
  dense::Options options;
  options.scale = 1;
  dense::Narrow narrow;
  narrow.softmax = Dtype::kBF16;
  std::string why;
  // A logit between two neighbours of bfloat16 may become either.
  const double tie = -1 - 0x1p-8;
  auto got = dense::NarrowAttention(Small(tie, 0, 1), options, narrow, why);
  REQUIRE(got);
  CHECK(got->slack.data[0] > 1e-4);
  got =
      dense::NarrowAttention(Small(tie - 0x1p-10, 0, 1), options, narrow, why);
  CHECK(got->slack.data[0] == 0);
}

TEST_CASE("plain arithmetic is not narrow") {
  CHECK_FALSE(dense::Narrow().IsNarrow());
}

}  // namespace
}  // namespace shardc::verify
