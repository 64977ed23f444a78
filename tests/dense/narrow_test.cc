// Rows whose roundings can be computed by hand: with a query of one dim that is
// 1 the logits are the keys, and values of 0 and 1 select single weights.
#include "dense/narrow.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace shardc::dense {
namespace {

struct Row {
  std::vector<double> output, slack;  // by key
};

Inputs InputsOf(const std::vector<double>& keys) {
  const auto n = static_cast<int64_t>(keys.size());
  Inputs in;
  in.query = {{1, 1, 1, 1}, {1}};
  in.key = {{1, n, 1, 1}, keys};
  in.value = Array::Zeros({1, n, 1, n});
  for (int64_t s = 0; s < n; ++s) in.value.At(0, s, 0, s) = 1;
  return in;
}

Row Run(const Inputs& in, const Narrow& narrow, Options options = {}) {
  options.scale = 1;
  std::string why;
  const auto out = NarrowAttention(in, options, narrow, why);
  REQUIRE_MESSAGE(out, why);
  return {out->output.data, out->slack.data};
}

// The largest number that 4 bits can represent: 7 steps, if the largest number
// of the row is 7.5 steps.
constexpr double kTop = 7 / 7.5;

// Returns a key whose weight, before it is quantised, is `steps` / 7.5 times
// the largest weight.
double KeyOf(double steps) { return std::log(steps / 7.5) / (kTop * kTop); }

TEST_CASE("weights are integer multiples of a step, and only ties have slack") {
  struct Case {
    double steps, cut;
    bool tie;
  };
  for (const Case& one : std::vector<Case>{{4.65, 5, false},
                                           {4.35, 4, false},
                                           {1.2, 1, false},
                                           {4.4999, 4, false},
                                           {4.5001, 5, false},
                                           {4.49999999, 4, true},
                                           {4.50000001, 5, true}}) {
    CAPTURE(one.steps);
    const Row row = Run(InputsOf({0, KeyOf(one.steps)}), {.bits = 4});
    const double largest = 1 / (1 + one.steps / 7.5);
    const double step = largest / 7.5;
    CHECK(row.output[0] == doctest::Approx(7 * step * kTop).epsilon(1e-12));
    CHECK(row.output[1] ==
          doctest::Approx(one.cut * step * kTop).epsilon(1e-12));
    // Without a tie the slack is the float32 rounding of one product.
    CHECK(row.slack[0] < 200 * 0x1p-24);
    CHECK(row.slack[0] > 0x1p-24);
    if (one.tie) {
      CHECK(row.slack[1] == doctest::Approx(step * kTop).epsilon(1e-4));
    } else {
      CHECK(row.slack[1] < 200 * 0x1p-24);
    }
  }
}

// A logit has slack for a tie only if it is within a few float32 roundings of
// the tie, as many as sums of so few products may have.
TEST_CASE("slack is for what float32 may have done, not for more") {
  const auto slack_at = [](double off) {
    return Run(InputsOf({0, KeyOf(4.5 * (1 + off))}), {.bits = 4}).slack[1];
  };
  CHECK(slack_at(4 * 0x1p-24) > 0.01);
  CHECK(slack_at(-4 * 0x1p-24) > 0.01);
  CHECK(slack_at(400 * 0x1p-24) < 1e-4);
  CHECK(slack_at(-400 * 0x1p-24) < 1e-4);
}

// A quantity that is rounded, and how near it may be to a tie, in float32
// roundings, before it has slack.
struct Reach {
  const char* what;
  double roundings;  // of float32
  std::function<double(double off)> slack;
};

// The numbers of roundings are those of the formulas of LogitError and
// PlainWeights.
TEST_CASE("logits and weights are forgiven so many roundings and no more") {
  const double tie = 1 + 0x1p-8;
  const auto soft = [](Inputs in, Options options = {}) {
    return Run(in, {.softmax = Dtype::kBF16}, options).slack[0];
  };
  const auto with_bias = [&](double off) {
    Inputs in = InputsOf({0.5, 0});
    in.bias = {{1, 1, 1, 2}, {tie * (1 + off) - 0.5, 0}};
    return soft(in);
  };
  const auto three_dims = [&](double off) {
    Inputs in = InputsOf({0, 0});
    in.query = {{1, 1, 1, 3}, {1, 0.5, 0.25}};
    in.key = {{1, 2, 1, 3}, {tie * (1 + off), 2, -4, 0, 0, 0}};
    return soft(in);
  };
  const auto cut = [](double off) {
    return Run(InputsOf({0, KeyOf(4.5 * (1 + off))}), {.bits = 4}).slack[1];
  };
  const double logit = -std::log(4.5 / 7.5), sum = std::log(1 + 4.5 / 7.5);
  const double plain = 8 * (3 + 2) * logit + logit + sum;
  const Reach reaches[] = {
      {"one product", 3 + 8 * (3 + 2),
       [&](double off) {
         return soft(InputsOf({tie * (1 + off), 0}));
       }},
      {"an added bias", (0.5 * 3 + 8 * (3 * 0.5 + 2 * tie)) / tie, with_bias},
      {"three products, two of which cancel",
       ((tie + 2) * 5 + 8 * (3 + 2) * tie) / tie, three_dims},
      {"a weight among its block's steps", 2 * (2 * plain + 16), cut},
  };
  for (const Reach& one : reaches) {
    CAPTURE(one.what);
    for (const double sign : {1.0, -1.0}) {
      const double off = sign * one.roundings * 0x1p-24;
      CHECK(one.slack(0.994 * off) > 1e-3);
      CHECK(one.slack(1.006 * off) < 1e-4);
    }
  }
}

TEST_CASE("a block of keys has steps of its own") {
  const Inputs in = InputsOf({0, KeyOf(4.65), KeyOf(0.2), KeyOf(0.1)});
  const Row row = Run(in, {.bits = 4, .block = 2});
  const double sum = 1 + (4.65 + 0.2 + 0.1) / 7.5;
  const double first = 1 / sum / 7.5, second = 0.2 / 7.5 / sum / 7.5;
  const std::vector<double> want = {7 * first, 5 * first, 7 * second,
                                    4 * second};
  for (size_t s = 0; s < 4; ++s) {
    CAPTURE(s);
    CHECK(row.output[s] == doctest::Approx(want[s] * kTop).epsilon(1e-9));
  }
  // With all keys in one block, the last two weights are below half a step.
  CHECK(Run(in, {.bits = 4}).output[2] == 0);
}

// Returns e^(x - max) divided by their sum, rounded to `dtype` at each step.
std::vector<double> Soft(Dtype dtype, const std::vector<double>& logits,
                         const std::vector<double>& sinks = {}) {
  std::vector<double> row = logits;
  row.insert(row.end(), sinks.begin(), sinks.end());
  double top = -INFINITY, sum = 0;
  for (double& x : row) top = std::max(top, x = Nearest(dtype, x));
  for (double& x : row) {
    x = Nearest(dtype, std::exp(Nearest(dtype, x - top)));
    sum += x;
  }
  sum = Nearest(dtype, sum);
  for (double& x : row) x = Nearest(dtype, x / sum);
  row.resize(logits.size());
  return row;
}

TEST_CASE("a softmax in 16 bits is rounded at each step") {
  const std::vector<double> keys = {0.3, -1.7, 2.21, 0.9, -0.05};
  for (const Dtype dtype : {Dtype::kBF16, Dtype::kF16}) {
    for (const std::vector<double>& sinks :
         {std::vector<double>{}, {1.5}, {3, -2}}) {
      Inputs in = InputsOf(keys);
      if (!sinks.empty()) {
        in.sinks = {{static_cast<int64_t>(sinks.size()), 1}, sinks};
      }
      const Row row = Run(in, {.softmax = dtype});
      const std::vector<double> want = Soft(dtype, keys, sinks);
      for (size_t s = 0; s < keys.size(); ++s) {
        CAPTURE(s);
        CHECK(row.output[s] == doctest::Approx(want[s]).epsilon(1e-12));
        CHECK(row.slack[s] >= 0);
        CHECK(row.slack[s] < 1e-9);
      }
    }
  }
}

// The logit is halfway between two numbers of bfloat16. It is rounded to the
// even one, and the slack covers the other.
TEST_CASE("a logit at a tie has the slack of both ways") {
  const double tie = 1 + 0x1p-8;
  const Row row = Run(InputsOf({tie, 0}), {.softmax = Dtype::kBF16});
  const std::vector<double> down = Soft(Dtype::kBF16, {1, 0});
  const std::vector<double> up = Soft(Dtype::kBF16, {1 + 0x1p-7, 0});
  for (size_t s = 0; s < 2; ++s) {
    CHECK(row.output[s] == doctest::Approx(down[s]).epsilon(1e-12));
    CHECK(row.slack[s] >= std::abs(up[s] - down[s]));
    // The slack covers the other end of the logit's interval, and at most one
    // more rounding.
    CHECK(row.slack[s] <= std::abs(up[s] - down[s]) + 0x1p-8);
  }
}

TEST_CASE("what is hidden stays hidden, and who sees nothing gives nothing") {
  Inputs in = InputsOf({0.5, 1, 1.5});
  in.mask = {{1, 1, 1, 3}, {1, 0, 1}};
  for (const Narrow& narrow :
       {Narrow{.bits = 4}, Narrow{.bits = 8}, Narrow{.softmax = Dtype::kF16}}) {
    CHECK(Run(in, narrow).output[1] == 0);
    CHECK(Run(in, narrow).slack[1] == 0);
    CHECK(Run(in, narrow).output[2] > 0.4);
  }
  in.mask = {{1, 1, 1, 3}, {0, 0, 0}};
  for (const Narrow& narrow :
       {Narrow{.bits = 4}, Narrow{.softmax = Dtype::kF16}}) {
    CHECK(Run(in, narrow).output == std::vector<double>{0, 0, 0});
    CHECK(Run(in, narrow).slack == std::vector<double>{0, 0, 0});
  }
}

TEST_CASE("operands are quantised by row, values by dim within a block") {
  Inputs in;
  in.query = {{1, 1, 2, 2}, {1, 0.4, 0, 0}};
  in.key = {{1, 2, 1, 2}, {2, -1, 0.1, 0.06}};
  in.value = {{1, 3, 1, 2}, {1, 10, 0.5, -20, 0.2, 5}};
  const Inputs all = QuantizeOperands(in, 4, 0);
  const auto near = [](const Array& got, const std::vector<double>& want) {
    REQUIRE(got.data.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      CAPTURE(i);
      CHECK(got.data[i] == doctest::Approx(want[i]).epsilon(1e-12));
    }
  };
  near(all.query, {7 / 7.5, 3 / 7.5, 0, 0});
  near(all.key, {7 * 2 / 7.5, -4 * 2 / 7.5, 7 * 0.1 / 7.5, 4 * 0.1 / 7.5});
  near(all.value,
       {7 / 7.5, 4 * 20 / 7.5, 4 / 7.5, -7 * 20 / 7.5, 2 / 7.5, 2 * 20 / 7.5});
  // The last block has only one key.
  near(QuantizeOperands(in, 4, 2).value,
       {7 / 7.5, 4 * 20 / 7.5, 4 / 7.5, -7 * 20 / 7.5, 7 * 0.2 / 7.5,
        7 * 5 / 7.5});
}

}  // namespace
}  // namespace shardc::dense
