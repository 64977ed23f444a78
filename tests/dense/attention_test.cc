#include "dense/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "dense/array.h"
#include "exec/machine/random.h"

namespace shardc::dense {
namespace {

Array Normal(std::vector<int64_t> shape, uint64_t seed) {
  Array x = Array::Zeros(std::move(shape));
  const exec::Random random(seed);
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = random.Normal(i);
  return x;
}

Inputs InputsOf(int64_t b, int64_t t, int64_t s, int64_t h, int64_t k,
                int64_t d) {
  Inputs in;
  in.query = Normal({b, t, h, d}, 1);
  in.key = Normal({b, s, k, d}, 2);
  in.value = Normal({b, s, k, d}, 3);
  return in;
}

Result Run(const Inputs& in, const Options& o = {}) {
  std::string why;
  auto out = Attention(in, o, why, true);
  REQUIRE_MESSAGE(out, why);
  return *out;
}

double Distance(const Array& a, const Array& b) {
  REQUIRE(a.shape == b.shape);
  double worst = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    worst = std::max(worst, std::abs(a.data[i] - b.data[i]));
  }
  return worst;
}

// Returns a mask [1, 1, T, S] in which query i may attend to key j if f(i, j).
template <typename F>
Array MaskOf(int64_t t, int64_t s, F f) {
  Array mask = Array::Zeros({1, 1, t, s});
  for (int64_t i = 0; i < t; ++i) {
    for (int64_t j = 0; j < s; ++j) mask.At(0, 0, i, j) = f(i, j);
  }
  return mask;
}

TEST_CASE("two keys by hand") {
  Inputs in;
  in.query = {{1, 1, 1, 1}, {1.0}};
  in.key = {{1, 2, 1, 1}, {0.0, std::log(3.0)}};
  in.value = {{1, 2, 1, 2}, {4, 0, 8, 1}};
  const Result out = Run(in);
  CHECK(out.output.data[0] == doctest::Approx(7));
  CHECK(out.output.data[1] == doctest::Approx(0.75));
  CHECK(out.lse.data[0] == doctest::Approx(std::log(4.0)));
  // With scale 2 the logits are 0 and log 9, and a sink of 0 adds 1 to the
  // denominator.
  Options options;
  options.scale = 2;
  in.sinks = {{1, 1}, {0}};
  CHECK(Run(in, options).output.data[1] == doctest::Approx(9.0 / 11));
}

TEST_CASE("grouped heads equal repeated ones") {
  const Inputs grouped = InputsOf(2, 3, 5, 6, 2, 4);
  Inputs repeated = grouped;
  repeated.key = Array::Zeros({2, 5, 6, 4});
  repeated.value = repeated.key;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t j = 0; j < 5; ++j) {
      for (int64_t h = 0; h < 6; ++h) {
        for (int64_t d = 0; d < 4; ++d) {
          repeated.key.At(b, j, h, d) = grouped.key.At(b, j, h / 3, d);
          repeated.value.At(b, j, h, d) = grouped.value.At(b, j, h / 3, d);
        }
      }
    }
  }
  CHECK(Distance(Run(grouped).output, Run(repeated).output) == 0);
}

TEST_CASE("causal and windows are masks aligned to the last query") {
  const int64_t t = 4, s = 7;
  const Inputs in = InputsOf(1, t, s, 2, 1, 4);
  struct Case {
    bool causal;
    std::optional<int64_t> left, right;
    bool (*keeps)(int64_t pq, int64_t pk);
  };
  const Case cases[] = {
      {true, {}, {}, [](int64_t pq, int64_t pk) { return pk <= pq; }},
      {false, 1, 0,
       [](int64_t pq, int64_t pk) { return pq - pk >= 0 && pq - pk < 2; }},
      {false, 1, 2,
       [](int64_t pq, int64_t pk) { return pk >= pq - 1 && pk <= pq + 2; }},
      {false, {}, 1, [](int64_t pq, int64_t pk) { return pk <= pq + 1; }},
      {true,
       2,
       {},
       [](int64_t pq, int64_t pk) { return pk >= pq - 2 && pk <= pq; }},
  };
  for (const Case& c : cases) {
    Options options;
    options.causal = c.causal;
    options.left = c.left;
    options.right = c.right;
    Inputs masked = in;
    masked.mask = MaskOf(
        t, s, [&](int64_t i, int64_t j) { return c.keeps(s - t + i, j); });
    const Array got = Run(in, options).output;
    CHECK(Distance(got, Run(masked).output) == 0);
    CHECK(Distance(got, Run(in).output) > 0.01);
    // An additive mask of very negative numbers has the same effect as a mask.
    Inputs additive = in;
    additive.additive_mask = masked.mask;
    for (double& x : additive.additive_mask.data) {
      x = x != 0 ? 0 : kMasked;
    }
    CHECK(Distance(got, Run(additive).output) == 0);
  }
}

TEST_CASE("positions as data move with their keys") {
  Inputs in = InputsOf(1, 3, 5, 1, 1, 2);
  Options options;
  options.causal = true;
  const Array want = Run(in, options).output;
  in.query_positions = {2, 3, 4};
  in.key_positions = {4, 3, 2, 1, 0};
  for (Array* x : {&in.key, &in.value}) {
    const Array old = *x;
    for (int64_t j = 0; j < 5; ++j) {
      for (int64_t d = 0; d < 2; ++d)
        x->At(0, j, 0, d) = old.At(0, 4 - j, 0, d);
    }
  }
  CHECK(Distance(want, Run(in, options).output) < 1e-15);
  // Each batch row has its own positions.
  Inputs two = InputsOf(2, 3, 5, 1, 1, 2);
  two.query_positions = {2, 3, 4, 2, 3, 4};
  two.key_positions = {4, 3, 2, 1, 0, 0, 1, 2, 3, 4};
  for (int64_t b = 0; b < 2; ++b) {
    for (const auto& [from, to] : {std::pair{&in.query, &two.query},
                                   {&in.key, &two.key},
                                   {&in.value, &two.value}}) {
      for (int64_t j = 0; j < from->dim(1); ++j) {
        const int64_t at = b == 0 || from == &in.query ? j : 4 - j;
        for (int64_t d = 0; d < 2; ++d) {
          to->At(b, j, 0, d) = from->At(0, at, 0, d);
        }
      }
    }
  }
  const Array both = Run(two, options).output;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t d = 0; d < 2; ++d) {
        CHECK(both.At(b, i, 0, d) == doctest::Approx(want.At(0, i, 0, d)));
      }
    }
  }
  in.key_positions[0] = -1;  // position 4 becomes an empty slot
  CHECK(Distance(want, Run(in, options).output) > 1e-3);
}

TEST_CASE("lengths and starts cut columns") {
  Inputs in = InputsOf(2, 2, 6, 2, 2, 4);
  in.key_lengths = {4, 6};
  in.key_starts = {0, 3};
  Inputs masked = in;
  masked.key_lengths.clear();
  masked.key_starts.clear();
  masked.mask = Array::Zeros({2, 1, 1, 6});
  masked.mask.data = {1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1};
  CHECK(Distance(Run(in).output, Run(masked).output) == 0);
  Options options;
  options.causal = true;  // the last query sits at length - 1
  const Result out = Run(in, options);
  CHECK(out.weights.At(0, 0, 0, 3) == 0);
  CHECK(out.weights.At(0, 0, 1, 3) > 0);
  CHECK(out.weights.At(1, 0, 0, 5) == 0);
}

TEST_CASE("segments are separate runs, and packing is segments") {
  const int64_t cu[] = {0, 2, 5};
  Inputs in = InputsOf(1, 6, 6, 2, 1, 4);
  in.query_segments = in.key_segments = {0, 0, 1, 1, 1, -1};
  const Packed packed = PackedPositions(in.query_segments, in.key_segments);
  CHECK(packed.queries == std::vector<int64_t>{0, 1, 0, 1, 2, -1});
  CHECK(packed.keys == packed.queries);
  in.query_positions = packed.queries;
  in.key_positions = packed.keys;
  Options options;
  options.causal = true;
  const Array got = Run(in, options).output;
  for (int r = 0; r < 2; ++r) {
    const int64_t n = cu[r + 1] - cu[r];
    Inputs one = InputsOf(1, n, n, 2, 1, 4);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t d = 0; d < 4; ++d) {
        for (int64_t h = 0; h < 2; ++h) {
          one.query.At(0, i, h, d) = in.query.At(0, cu[r] + i, h, d);
        }
        one.key.At(0, i, 0, d) = in.key.At(0, cu[r] + i, 0, d);
        one.value.At(0, i, 0, d) = in.value.At(0, cu[r] + i, 0, d);
      }
    }
    const Array want = Run(one, options).output;
    for (int64_t i = 0; i < n; ++i) {
      CHECK(got.At(0, cu[r] + i, 1, 3) ==
            doctest::Approx(want.At(0, i, 1, 3)).epsilon(1e-14));
    }
  }
  CHECK(got.At(0, 5, 0, 0) == 0);  // the padding token
  const int64_t queries[] = {0, 0, 1, 1, 1},
                keys[] = {0, 0, 0, 0, 1, 1, 1, 1, 1};
  CHECK(PackedPositions(queries, keys).queries ==
        std::vector<int64_t>{2, 3, 2, 3, 4});
  // With id 1 as padding, rows of this id attend to nothing.
  options.padding_segment = 1;
  CHECK(Run(in, options).output.At(0, 3, 0, 0) == 0);
}

TEST_CASE("rows without a key") {
  Inputs in = InputsOf(1, 2, 3, 1, 1, 2);
  in.mask = MaskOf(2, 3, [](int64_t i, int64_t) { return i == 1; });
  Options options;
  Result out = Run(in, options);
  CHECK(out.output.At(0, 0, 0, 1) == 0);
  CHECK(out.lse.data[0] == -std::numeric_limits<double>::infinity());
  options.mean_of_masked = true;
  out = Run(in, options);
  const double mean =
      (in.value.data[1] + in.value.data[3] + in.value.data[5]) / 3;
  CHECK(out.output.At(0, 0, 0, 1) == doctest::Approx(mean).epsilon(1e-14));
  in.sinks = {{1, 1}, {-3}};
  out = Run(in, options);
  CHECK(out.output.At(0, 0, 0, 1) == 0);
  CHECK(out.lse.data[0] == doctest::Approx(-3));
}

TEST_CASE("sinks are keys of value zero") {
  Inputs in = InputsOf(1, 2, 3, 4, 2, 2);
  std::string why;
  const auto sinks = [&](Array given) {
    in.sinks = std::move(given);
    std::vector<double> out;
    for (int64_t a = 0; a < in.SinkCount(); ++a) {
      for (int64_t h = 0; h < 4; ++h) out.push_back(in.Sink(a, h));
    }
    return out;
  };
  CHECK(sinks({{4}, {1, 2, 3, 4}}) == std::vector<double>{1, 2, 3, 4});
  CHECK(sinks({{2}, {1, 2}}) == std::vector<double>{1, 1, 2, 2});
  in.sinks = {{2, 3}, {1, 2, 3, 4, 5, 6}};
  CHECK_FALSE(Attention(in, {}, why));
  CHECK(why == "softmax_aux [2, 3] is neither [4] nor [sinks, 2]");
  for (const Array& wrong :
       {Array{{3}, {1, 2, 3}}, Array{{4, 1}, {1, 2, 3, 4}},
        Array{{1, 1, 2}, {1, 2}}, Array{{2, 1, 2}, {1, 2, 3, 4}}}) {
    in.sinks = wrong;
    CHECK_FALSE(Attention(in, {}, why));
  }
  const std::vector<double> several = sinks({{3, 2}, {1, 2, 3, 4, 5, 6}});
  CHECK(several == std::vector<double>{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});
  const Result with = Run(in);
  in.sinks = {};
  const Result without = Run(in);
  for (int64_t h = 0; h < 4; ++h) {
    const double l = std::exp(without.lse.At(0, 1, h, 0));
    double more = l;
    for (int64_t a = 0; a < 3; ++a)
      more += std::exp(several[static_cast<size_t>(a * 4 + h)]);
    CHECK(with.output.At(0, 1, h, 0) ==
          doctest::Approx(without.output.At(0, 1, h, 0) * l / more));
  }
}

TEST_CASE("bias is added after the cap, before the mask") {
  Inputs in = InputsOf(1, 1, 2, 2, 1, 1);
  in.query.data = {1, 1};
  in.key.data = {100, -100};
  in.bias = {{1, 2, 1, 2}, {0, 0, 5, 1}};
  Options options;
  options.scale = 1;
  options.soft_cap = 2;
  const Result out = Run(in, options);
  CHECK(out.weights.data[1] / out.weights.data[0] ==
        doctest::Approx(std::exp(-4)));
  CHECK(out.weights.data[3] / out.weights.data[2] ==
        doctest::Approx(std::exp(-8)));
  in.bias.shape = {1, 1, 1, 2};
  in.bias.data = {0, 4};
  CHECK(Run(in, options).weights.data[0] == doctest::Approx(0.5));
  in.mask = MaskOf(1, 2, [](int64_t, int64_t j) { return j == 0; });
  CHECK(Run(in, options).weights.data[0] == 1);
}

TEST_CASE("dropout scales the kept and leaves the denominator") {
  Inputs in = InputsOf(2, 3, 8, 2, 1, 1);
  for (double& x : in.value.data) x = 1;
  Options options;
  options.dropout = 0.5;
  options.dropout_seed = 9;
  const Result out = Run(in, options);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t h = 0; h < 2; ++h) {
        double kept = 0;
        for (int64_t j = 0; j < 8; ++j) {
          if (!Drops(9, b, h, 5 + i, j, 0.5)) {
            kept += out.weights.At(b, h, i, j);
          }
        }
        CHECK(out.output.At(b, i, h, 0) == doctest::Approx(2 * kept));
      }
    }
  }
}

TEST_CASE("a table of blocks hides whole blocks, by head where it has heads") {
  Inputs in = InputsOf(1, 3, 5, 2, 1, 2);
  in.blocks = {{1, 2, 2, 3}, {1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1}};
  in.block_rows = in.block_keys = 2;
  const Result out = Run(in);
  const auto sees = [&](int64_t h, int64_t i) {
    std::string text;
    for (int64_t j = 0; j < 5; ++j) {
      text += out.weights.At(0, h, i, j) > 0 ? '1' : '0';
    }
    return text;
  };
  CHECK(sees(0, 0) == "11001");
  CHECK(sees(0, 1) == "11001");
  CHECK(sees(0, 2) == "11110");
  CHECK(sees(1, 1) == "11111");
  CHECK(sees(1, 2) == "00001");
  in.block_keys = 3;
  std::string why;
  CHECK_FALSE(Attention(in, {}, why));
  CHECK(why.starts_with("blocks [1, 2, 2, 3] do not fit"));
}

TEST_CASE("large logits stay finite") {
  Inputs in = InputsOf(1, 2, 4, 1, 1, 2);
  Options options;
  options.scale = 1e6;
  for (double x : Run(in, options).output.data) CHECK(std::isfinite(x));
}

TEST_CASE("both other layouts convert to bthd") {
  const Array x = Normal({2, 3, 4, 5}, 4);
  const Array swapped = ToBthd(x, Layout::kBhtd);
  CHECK(swapped.shape == std::vector<int64_t>{2, 4, 3, 5});
  CHECK(swapped.At(1, 3, 2, 4) == x.At(1, 2, 3, 4));
  CHECK(ToBthd(swapped, Layout::kBhtd).data == x.data);
  const Array packed = ToBthd(Normal({6, 4, 5}, 4), Layout::kThd);
  CHECK(packed.shape == std::vector<int64_t>{1, 6, 4, 5});
}

TEST_CASE("shapes that do not fit are refused with the shapes") {
  std::string why;
  Inputs in = InputsOf(1, 2, 3, 4, 2, 2);
  in.key = Normal({1, 3, 3, 2}, 1);
  CHECK_FALSE(Attention(in, {}, why));
  CHECK(why ==
        "query [1, 2, 4, 2], key [1, 3, 3, 2], value [1, 3, 2, 2] do not fit "
        "each other");
  in = InputsOf(1, 2, 3, 4, 2, 2);
  in.query = Normal({1, 2, 3, 2}, 1);
  CHECK_FALSE(Attention(in, {}, why));
  CHECK(why == "3 query heads are no multiple of 2 key heads");
  why.clear();
  in = InputsOf(1, 2, 3, 4, 2, 2);
  in.bias = Normal({1, 3, 2, 3}, 1);
  CHECK_FALSE(Attention(in, {}, why));
  CHECK(why ==
        "bias [1, 3, 2, 3] do not fit query [1, 2, 4, 2] and key [1, 3, 2, 2]");
}

}  // namespace
}  // namespace shardc::dense
