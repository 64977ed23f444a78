// Reads keys that only a few families have.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "parse/project.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

ModelConfig Read(std::string_view text) {
  TemporaryFolder folder;
  Findings findings;
  const auto config =
      ReadModelConfig(folder.Write("config.json", text), findings);
  REQUIRE(config);
  return *config;
}

TEST_CASE("Step-3 counts its KV heads as groups of heads") {
  const ModelConfig config = Read(R"({"model_type": "step3_vl", "text_config":
      {"model_type": "step3_text", "hidden_size": 7168, "head_dim": 256,
       "num_attention_heads": 64, "num_attention_groups": 1}})");
  CHECK(config.heads == 64);
  CHECK(config.kv_heads == 1);
  CHECK(config.head_dim == 256);
}

TEST_CASE("an indexer has a key for each token") {
  CHECK(Read(R"({"kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "index_head_dim": 128})")
            .index_dim == 128);
  CHECK_FALSE(Read(R"({"kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64})")
                  .index_dim);
}

}  // namespace
}  // namespace shardc
