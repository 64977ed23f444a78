#include "model/legal_sizes.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardc {
namespace {

std::string TextOf(const ModelSizes& sizes) {
  std::string out;
  for (const IllegalSize& one : IllegalSizes(sizes)) out += one.message + "\n";
  return out;
}

TEST_CASE("sizes that fit each other are legal") {
  CHECK(TextOf({}).empty());
  CHECK(TextOf({.heads = 32, .kv_heads = 8}).empty());
  CHECK(TextOf({.heads = 8, .kv_heads = 8}).empty());
  CHECK(TextOf({.experts = 4, .experts_per_token = 4}).empty());
  CHECK(TextOf({.experts = 0, .experts_per_token = 0}).empty());
  CHECK(TextOf({.head_dim = 128, .rotary_dim = 128}).empty());
  CHECK(TextOf({.head_dim = 128, .rotary_dim = 2}).empty());
}

TEST_CASE("sizes that no program can have are reported with both numbers") {
  CHECK(TextOf({.heads = 6, .kv_heads = 4}) ==
        "4 KV heads cannot serve 6 attention heads: 4 does not divide 6\n");
  CHECK(TextOf({.heads = 4, .kv_heads = 8}) ==
        "8 KV heads cannot serve 4 attention heads: 8 does not divide 4\n");
  CHECK(TextOf({.experts = 4, .experts_per_token = 6}) ==
        "each token goes to 6 experts, and the model has 4 experts\n");
  CHECK(TextOf({.experts = 4, .experts_per_token = 0}) ==
        "each token goes to 0 experts, and the model has 4 experts\n");
  CHECK(TextOf({.head_dim = 63, .rotary_dim = 63}) ==
        "the rotary dimension is 63, which is not even and above 0\n");
  CHECK(TextOf({.rotary_dim = 0}) ==
        "the rotary dimension is 0, which is not even and above 0\n");
  CHECK(TextOf({.head_dim = 64, .rotary_dim = 128}) ==
        "the rotary dimension is 128, and a head has 64 elements\n");
}

TEST_CASE("the help names the numbers that can be written") {
  using Which = IllegalSize::Which;
  const auto only = [](const ModelSizes& sizes) {
    const std::vector<IllegalSize> all = IllegalSizes(sizes);
    REQUIRE(all.size() == 1);
    return all[0];
  };
  const IllegalSize heads = only({.heads = 6, .kv_heads = 4});
  CHECK(heads.which == Which::kKvHeads);
  CHECK(heads.help ==
        "each KV head serves the same number of attention heads: write a "
        "divisor of 6");
  const IllegalSize experts = only({.experts = 4, .experts_per_token = 6});
  CHECK(experts.which == Which::kExpertsPerToken);
  CHECK(experts.help == "write a number from 1 to 4");
  const IllegalSize odd = only({.head_dim = 63, .rotary_dim = 63});
  CHECK(odd.which == Which::kRotaryDim);
  CHECK(odd.help == "rotary embeddings rotate pairs of a head's elements");
  const IllegalSize wide = only({.head_dim = 64, .rotary_dim = 128});
  CHECK(wide.which == Which::kRotaryDim);
  CHECK(wide.help == "write a number up to 64");
  // Messages use the singular for 1. 0 KV heads do not divide any number of
  // heads.
  CHECK(TextOf({.heads = 1, .kv_heads = 0}) ==
        "0 KV heads cannot serve 1 attention head: 0 does not divide 1\n");
  CHECK(TextOf({.experts = 1, .experts_per_token = 2}) ==
        "each token goes to 2 experts, and the model has 1 expert\n");
  CHECK(TextOf({.experts = 2, .experts_per_token = 1}).empty());
  CHECK(IllegalSizes({.heads = 6,
                      .kv_heads = 4,
                      .head_dim = 8,
                      .rotary_dim = 9,
                      .experts = 1,
                      .experts_per_token = 2})
            .size() == 3);
}

TEST_CASE("a rotary part is a fraction of a head, rounded down") {
  CHECK(RotaryDim(80, 0.4) == 32);
  CHECK(RotaryDim(100, 0.29) == 29);
  CHECK(RotaryDim(96, 0.25) == 24);
  CHECK(RotaryDim(128, 1) == 128);
  CHECK(RotaryDim(64, 1e12) > 64);
  CHECK(RotaryDim(1 << 26, 1e12) > 64);
}

TEST_CASE("stated sizes of parts sum to their dimension") {
  const PartsOfDim sized{.count = 3, .sizes = {4, 2, 2}};
  const DimParts parts = {{}, sized};
  CHECK(DimPartsText(parts) == "[null, [4, 2, 2]]");
  CHECK(InPartsText({{.count = 2}}) == " in parts [2]");
  CHECK(SizesOfParts(sized, 8) == std::vector<int64_t>{4, 2, 2});
  CHECK_FALSE(SizesOfParts(sized, 7));
  CHECK_FALSE(SizesOfParts(sized, 9));
  CHECK(SizesOfParts({.count = 4}, 8) == std::vector<int64_t>{2, 2, 2, 2});
  CHECK_FALSE(SizesOfParts({.count = 3}, 8));
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  CHECK_FALSE(SizesOfParts({.count = 2, .sizes = {kMax, kMax}}, kMax));
  CHECK(PartsDivide(parts, {3, 8}));
  CHECK_FALSE(PartsDivide(parts, {8, 3}));
  CHECK_FALSE(PartsDivide(parts, {8}));
  CHECK(StatesSizes(parts));
  CHECK_FALSE(EqualPartsOf(parts));
  CHECK(EqualAmong({sized, {.count = 2}}) == EqualParts{1, 2});
  CHECK(EqualPartsOf({{}, {.count = 2}}) == EqualParts{1, 2});
  // The parts of a dimension without axes mean nothing.
  CHECK(ShardedParts(parts, {{"tp"}}).empty());
  CHECK(ShardedParts(parts, {{}, {"tp"}}) == parts);
}

TEST_CASE("sizes that are equal are a number of parts") {
  const PartsOfDim twice{.count = 2, .sizes = {4, 4}};
  CHECK(NumbersOfEqual({twice}, {8}) == DimParts{{.count = 2}});
  CHECK(NumbersOfEqual({twice}, {12}) == DimParts{twice});
  const PartsOfDim other{.count = 2, .sizes = {2, 6}};
  CHECK(NumbersOfEqual({other}, {8}) == DimParts{other});
}

}  // namespace
}  // namespace shardc
