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

TEST_CASE("heads of Gemma 4's layers without a window") {
  const ModelConfig large = Read(R"({"model_type": "gemma4", "text_config":
      {"model_type": "gemma4_text", "head_dim": 256, "global_head_dim": 512,
       "num_attention_heads": 32, "num_key_value_heads": 16,
       "num_global_key_value_heads": 4, "attention_k_eq_v": true}})");
  CHECK(large.kv_heads == 16);
  CHECK(large.head_dim == 256);
  CHECK(large.full_kv_heads == 4);
  CHECK(large.full_head_dim == 512);
  const ModelConfig small = Read(R"({"model_type": "gemma4_text",
      "head_dim": 256, "num_attention_heads": 8,
      "num_global_key_value_heads": 4})");
  CHECK_FALSE(small.full_kv_heads);
  CHECK(small.full_head_dim == 512);
  CHECK(small.sliding_window == 512);
  CHECK(small.tied_embeddings);
  // As transformers writes them since it has heads layer by layer.
  const ModelConfig listed = Read(R"({"model_type": "gemma4_text",
      "num_attention_heads": 32, "num_key_value_heads": 16,
      "per_layer_config": {"5": {"head_dim": 384, "num_key_value_heads": 4},
                           "11": {"head_dim": 384,
                                  "num_key_value_heads": 4}}})");
  CHECK(listed.head_dim == 256);
  CHECK(listed.full_head_dim == 384);
  CHECK(listed.full_kv_heads == 4);
  CHECK_FALSE(Read(R"({"model_type": "gemma3_text", "head_dim": 256,
      "global_head_dim": 512})")
                  .full_head_dim);
}

TEST_CASE(
    "heads of Zamba are twice as large as their part of the hidden size") {
  // The keys of Zyphra/Zamba2-2.7B: kv_channels is not the size of a head.
  CHECK(Read(R"({"model_type": "zamba2", "hidden_size": 2560,
      "num_attention_heads": 32, "kv_channels": 80,
      "attention_head_dim": 160})")
            .head_dim == 160);
  for (const std::string type : {"zamba", "zamba2"}) {
    CHECK(Read(R"({"hidden_size": 2560, "num_attention_heads": 32,
        "model_type": ")" +
               type + "\"}")
              .head_dim == 160);
  }
}

TEST_CASE("the feed-forward width of Phi-2 under its first model type") {
  CHECK(Read(R"({"model_type": "phi-msft", "n_embd": 2560, "n_head": 32,
      "n_inner": null})")
            .intermediate == 10240);
}

TEST_CASE("PLaMo-2 gives the size of a head by a key of its own") {
  CHECK(Read(R"({"model_type": "plamo2", "hidden_size": 2048,
      "num_attention_heads": 32, "hidden_size_per_head": 128})")
            .head_dim == 128);
}

TEST_CASE("ModernBERT's window has tokens on both sides") {
  CHECK(Read(R"({"model_type": "modernbert", "local_attention": 96})")
            .sliding_window == 96);
  CHECK(Read(R"({"model_type": "modernbert"})").sliding_window == 128);
  CHECK(Read(R"({"model_type": "modernbert-decoder"})").sliding_window == 64);
  CHECK_FALSE(Read(R"({"model_type": "modernbert-decoder",
      "local_attention": null})")
                  .sliding_window);
}

TEST_CASE("of numbers of KV heads by layer, the largest is read") {
  const auto read = [](const std::string& list) {
    return Read(R"({"num_hidden_layers": 3, "num_attention_heads": 16,
        "hidden_size": 2048, "num_key_value_heads": )" +
                list + "}")
        .kv_heads;
  };
  CHECK(read("[8, 4, 2]") == 8);
  CHECK(read("[0, 4, 4]") == 4);
  // Lists without a number of heads are ignored.
  CHECK(read("[0, 0, 0]") == 16);
  CHECK(read("[8, -1, 8]") == 16);
  CHECK(read("[8, null]") == 16);
}

TEST_CASE("Nemotron-NAS lists attention by layer") {
  const auto read = [](const std::string& blocks) {
    return Read(R"({"num_hidden_layers": 3, "num_attention_heads": 64,
        "hidden_size": 8192, "num_key_value_heads": null, "block_configs": [)" +
                blocks + "]}");
  };
  const std::string none =
      R"({"attention": {"n_heads_in_group": null, "no_op": true}})";
  const std::string eight =
      R"({"attention": {"n_heads_in_group": 8, "no_op": false}})";
  const ModelConfig some = read(eight + ", " + none + ", " + eight);
  CHECK(some.attention_layers == 2);
  CHECK(some.kv_heads == 8);
  const std::string four = R"({"attention": {"n_heads_in_group": 4}})";
  const ModelConfig mixed = read(eight + ", " + four + ", 7");
  CHECK(mixed.attention_layers == 2);
  // The largest number of a layer, which is that of the smallest groups.
  CHECK(mixed.kv_heads == 16);
}

}  // namespace
}  // namespace shardc
