#include "model/legal_sizes.h"

#include <doctest/doctest.h>

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

TEST_CASE("a rotary part is a fraction of a head, rounded down") {
  CHECK(RotaryDim(80, 0.4) == 32);
  CHECK(RotaryDim(100, 0.29) == 29);
  CHECK(RotaryDim(96, 0.25) == 24);
  CHECK(RotaryDim(128, 1) == 128);
  CHECK(RotaryDim(64, 1e12) > 64);
  CHECK(RotaryDim(1 << 26, 1e12) > 64);
}

}  // namespace
}  // namespace shardc
