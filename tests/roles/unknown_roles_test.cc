#include "roles/classify.h"

#include <string_view>
#include <vector>

#include "doctest/doctest.h"

namespace shardc {
namespace {

// Returns whether a matrix of this name, with likely words too, has no role.
bool IsUnknown(std::string_view name, char separator, const Shape& shape,
               const std::vector<int>& dims) {
  const ParameterRole role = Classify(name, separator, Confidence::kLikely,
                                      static_cast<int>(shape.size()));
  return IsUnknownMatrix(name, separator, role, shape, dims);
}

TEST_CASE("matrices whose names show no role") {
  CHECK(IsUnknown("blocks/*/zorp/kernel", '/', {512, 1024}, {0, 1}));
  CHECK(IsUnknown("zorp/kernel", '/', {12, 512, 1024}, {1, 2}));
  CHECK_FALSE(IsUnknown("zorp/scale", '/', {12, 512}, {1}));
  CHECK_FALSE(IsUnknown("blocks/*/qkv/kernel", '/', {512, 1536}, {0, 1}));
  CHECK_FALSE(IsUnknown("blocks/*/to_out/kernel", '/', {512, 512}, {0, 1}));
  // Scales, adapters and biases have the role of their module's weight, and a
  // kernel with taps is a convolution.
  CHECK_FALSE(IsUnknown("zorp.weight_scale", '.', {512, 16}, {0, 1}));
  CHECK_FALSE(IsUnknown("zorp/lora_A", '/', {512, 16}, {0, 1}));
  CHECK_FALSE(IsUnknown("zorp/bias", '/', {32, 64}, {0, 1}));
  CHECK_FALSE(IsUnknown("zorp.weight", '.', {512, 64, 3, 3}, {0, 1, 2, 3}));
  CHECK_FALSE(IsUnknown("zorp/kernel", '/', {3, 512, 512}, {0, 1, 2}));
  CHECK(IsUnknown("zorp", '/', {8, 512, 1024}, {0, 1, 2}));
  CHECK_FALSE(IsUnknown("mixer.out_proj.weight", '.', {64, 128}, {0, 1}));
  CHECK(IsUnknown("mixer.zorp.weight", '.', {64, 128}, {0, 1}));
  CHECK_FALSE(IsUnknown("zorp/embedding", '/', {32000, 512}, {0, 1}));
}

}  // namespace
}  // namespace shardc
