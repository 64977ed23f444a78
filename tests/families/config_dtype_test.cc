#include "families/families.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "families/configs.h"

namespace shardc::families {
namespace {

TEST_CASE("a dtype that is not known is refused, not taken for F32") {
  struct Case {
    std::string key, dtype;
    Dtype expected;
  };
  const std::vector<Case> cases = {
      {"torch_dtype", "torch.bfloat16", Dtype::kBF16},
      {"dtype", "float16", Dtype::kF16},
      {"torch_dtype", "auto", Dtype::kF32},
  };
  for (const Case& test : cases) {
    CAPTURE(test.dtype);
    const auto document = Config("{" + kSmall + ", \"" + test.key + "\": \"" +
                                 test.dtype + "\"}");
    Findings findings;
    const auto tree = BuildTree(*document, "hf", findings);
    REQUIRE(tree);
    CHECK(tree->TypeOf(tree->tensors[0]).dtype == test.expected);
    CHECK(tree->dtype_assumed == (test.dtype == "auto"));
    const bool noted = std::find(tree->notes.begin(), tree->notes.end(),
                                 kDtypeAssumed) != tree->notes.end();
    CHECK(noted == tree->dtype_assumed);
  }
  // Some versions of transformers state it only in the nested config.
  const auto nested = [](const std::string& outer, const std::string& inner) {
    const auto document = Config(
        R"({"model_type": "qwen2_vl", "vision_config": {"depth": 1}, )" +
        outer + R"("text_config": {"num_hidden_layers": 1)" + inner + "}}");
    Findings findings;
    auto tree = BuildTree(*document, "hf", findings);
    REQUIRE(tree);
    return std::pair(*tree->TypeOf(tree->tensors[0]).dtype,
                     tree->dtype_assumed);
  };
  const std::string inner = R"(, "dtype": "bfloat16")";
  CHECK(nested("", inner) == std::pair(Dtype::kBF16, false));
  CHECK(nested(R"("dtype": "auto", )", inner) ==
        std::pair(Dtype::kBF16, false));
  CHECK(nested(R"("torch_dtype": "float16", )", inner) ==
        std::pair(Dtype::kF16, false));
  CHECK(nested("", "") == std::pair(Dtype::kF32, true));
  CHECK(Refused("{" + kSmall + R"(, "torch_dtype": "bf16"})") ==
        "`torch_dtype` is `bf16`, which is no known dtype @ \"bf16\" -> write "
        "it as PyTorch does, such as `bfloat16`");
}

}  // namespace
}  // namespace shardc::families
