#include "roles/classify.h"

#include "doctest/doctest.h"

namespace shardc {
namespace {

TEST_CASE("matrices whose names show no role") {
  CHECK(IsUnknownByName("blocks/*/zorp/kernel", '/', {512, 1024}, {}));
  CHECK(IsUnknownByName("zorp/kernel", '/', {12, 512, 1024}, {0}));
  CHECK_FALSE(IsUnknownByName("zorp/scale", '/', {12, 512}, {0}));
  CHECK_FALSE(IsUnknownByName("blocks/*/qkv/kernel", '/', {512, 1536}, {}));
  CHECK_FALSE(IsUnknownByName("blocks/*/to_out/kernel", '/', {512, 512}, {}));
  // Scales, adapters and biases have the role of their module's weight, and a
  // kernel with taps is a convolution.
  CHECK_FALSE(IsUnknownByName("zorp.weight_scale", '.', {512, 16}, {}));
  CHECK_FALSE(IsUnknownByName("zorp/lora_A", '/', {512, 16}, {}));
  CHECK_FALSE(IsUnknownByName("zorp/bias", '/', {32, 64}, {}));
  CHECK_FALSE(IsUnknownByName("zorp.weight", '.', {512, 64, 3, 3}, {}));
  CHECK_FALSE(IsUnknownByName("zorp/kernel", '/', {3, 512, 512}, {}));
  CHECK(IsUnknownByName("zorp", '/', {8, 512, 1024}, {}));
  CHECK_FALSE(IsUnknownByName("mixer.out_proj.weight", '.', {64, 128}, {}));
  CHECK(IsUnknownByName("mixer.zorp.weight", '.', {64, 128}, {}));
  CHECK_FALSE(IsUnknownByName("zorp/embedding", '/', {32000, 512}, {}));
}

}  // namespace
}  // namespace shardc
