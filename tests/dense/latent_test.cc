#include "dense/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "exec/machine/random.h"

namespace shardc::dense {
namespace {

constexpr int64_t kBatch = 2, kKeys = 7, kHeads = 3, kRank = 5, kNope = 4,
                  kRope = 2, kValue = 6;

Array Normal(std::vector<int64_t> shape, uint64_t seed) {
  Array x = Array::Zeros(std::move(shape));
  const exec::Random random(seed);
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = random.Normal(i);
  return x;
}

Latent LatentOf(uint64_t seed) {
  return {Normal({kBatch, kKeys, kRank}, seed),
          Normal({kBatch, kKeys, kRope}, seed + 1),
          Normal({kHeads, kRank, kNope}, seed + 2),
          Normal({kHeads, kRank, kValue}, seed + 3)};
}

double Distance(const Array& a, const Array& b) {
  REQUIRE(a.shape == b.shape);
  double worst = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    worst = std::max(worst, std::abs(a.data[i] - b.data[i]));
  }
  return worst;
}

TEST_CASE("one row for all heads gives what keys of every head give") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Latent latent = LatentOf(10 * seed);
    const int64_t queries = 1 + static_cast<int64_t>(seed % 3);
    Inputs whole;
    whole.query = Normal({kBatch, queries, kHeads, kNope + kRope}, seed + 500);
    if (seed % 2 == 1) whole.sinks = Normal({kHeads}, seed + 600);
    if (seed % 4 == 2) whole.key_lengths = {5, kKeys};
    Inputs narrow = whole;
    Expanded expanded = Expand(latent);
    whole.key = std::move(expanded.key);
    whole.value = std::move(expanded.value);
    Absorbed absorbed = Absorb(latent, whole.query);
    narrow.query = std::move(absorbed.query);
    narrow.key = std::move(absorbed.key);
    narrow.value = std::move(absorbed.value);
    narrow.value_up = latent.up_value;
    Options options;
    options.causal = seed % 3 == 0;
    options.scale = 0.3;
    std::string why;
    const auto want = Attention(whole, options, why, true);
    const auto got = Attention(narrow, options, why, true);
    REQUIRE_MESSAGE((want && got), why);
    CAPTURE(seed);
    CHECK(Distance(got->output, want->output) < 1e-12);
    CHECK(Distance(got->weights, want->weights) < 1e-12);
    CHECK(std::abs(LargestLogit(narrow, options) -
                   LargestLogit(whole, options)) < 1e-12);
  }
}

TEST_CASE("matrices that do not divide into heads are reported") {
  const Latent latent = LatentOf(1);
  Inputs in;
  in.query = Normal({kBatch, 1, kHeads, kNope + kRope}, 2);
  Absorbed absorbed = Absorb(latent, in.query);
  in.query = absorbed.query;
  in.key = absorbed.key;
  in.value = absorbed.value;
  in.value_up = Normal({kHeads + 1, kRank, kValue}, 3);
  std::string why;
  CHECK_FALSE(Attention(in, {}, why));
  CHECK(why.find("values' matrices [4, 5, 6]") != std::string::npos);
}

TEST_CASE("few queries of many keys are worth it, small sizes never are") {
  Latent big;
  big.latent.shape = {4, 2048, 512};
  big.rope_key.shape = {4, 2048, 64};
  big.up_key = Array::Zeros({128, 512, 128});
  big.up_value = Array::Zeros({128, 512, 128});
  CHECK(WorthAbsorbing(big, 4));
  CHECK_FALSE(WorthAbsorbing(big, 4 * 2048));
  CHECK_FALSE(WorthAbsorbing(LatentOf(1), 1));
}

}  // namespace
}  // namespace shardc::dense
