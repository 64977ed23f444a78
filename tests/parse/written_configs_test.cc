// Reads configurations with keys that few models have, with wrong values, and
// without sizes that are then those of the family's class.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "parse/project.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

struct Written {
  explicit Written(std::string_view text)
      : path(folder.Write("config.json", text)) {}
  TemporaryFolder folder;
  std::string path;
};

TEST_CASE("recent files hold the rotary embedding in one object") {
  const Written file(R"({"model_type": "x", "max_position_embeddings": 2048,
    "rope_parameters": {"rope_theta": 5e5, "rope_type": "dynamic",
                        "factor": 2.5, "attention_factor": 0.5}})");
  Findings findings;
  const auto config = ReadModelConfig(file.path, findings);
  REQUIRE(config);
  CHECK(findings.empty());
  REQUIRE(config->rope);
  CHECK(config->rope->base == 5e5);
  CHECK(config->rope->scaling == "dynamic");
  CHECK(config->rope->factor == 2.5);
  CHECK(config->rope->original_length == 2048);
  CHECK(config->rope->attention_factor == 0.5);
  const Written layered(R"({"model_type": "x", "rope_parameters": {
    "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
    "full_attention": {"rope_theta": 1e6, "rope_type": "linear",
                       "factor": 8}}})");
  const auto kinds = ReadModelConfig(layered.path, findings);
  REQUIRE(kinds);
  REQUIRE(kinds->rope);
  CHECK(kinds->rope->base == 1e6);
  CHECK(kinds->rope->scaling == "linear");
  CHECK(kinds->rope->factor == 8);
  const Written latent(R"({"kv_lora_rank": 16, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4, "v_head_dim": 6, "rope_parameters": {
      "rope_theta": 1e4, "rope_type": "yarn", "factor": 4,
      "mscale_all_dim": 1.0, "original_max_position_embeddings": 32}})");
  const auto scaled = ReadModelConfig(latent.path, findings);
  REQUIRE(scaled);
  // 12^-0.5 (0.1 ln 4 + 1)^2.
  CHECK(scaled->softmax_scale.value_or(0) ==
        doctest::Approx(0.37426067).epsilon(1e-6));
  const Written small(R"({"rope_theta": 0.5})");
  const auto without = ReadModelConfig(small.path, findings);
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message == "the model's rotary base is not above 1");
}

TEST_CASE("what is no number in a configuration") {
  struct Case {
    std::string_view text, said;
  };
  constexpr Case kCases[] = {
      {"{\"hidden_size\": \"4096\"}",
       "`hidden_size` is the string `4096`, not an integer"},
      {"{\"n_head\": 8.5}", "`n_head` is the number `8.5`, not an integer"},
      {"{\"vocab_size\": 9223372036854775808}",
       "`vocab_size` is larger than in any model"},
      {"[]", "a model's configuration is a list, not an object"},
  };
  for (const Case& test : kCases) {
    const Written file(test.text);
    Findings findings;
    CHECK_FALSE(ReadModelConfig(file.path, findings));
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all()[0].message == test.said);
  }
}

TEST_CASE("fields that no model can have are refused at their place") {
  struct Bad {
    std::string_view config, place, message;
  };
  constexpr Bad kBad[] = {
      {R"({"num_attention_heads": 8, "num_key_value_heads": 9007199254740992})",
       "9007199254740992", "`num_key_value_heads` is larger than in any model"},
      {R"({"hidden_size": 18446744073709551615})", "18446744073709551615",
       "`hidden_size` is larger than in any model"},
      {R"({"hidden_size": 67108865})", "67108865",
       "`hidden_size` is larger than in any model"},
      {R"({"n_layer": 0})", "0", "`n_layer` is 0, and a size is at least 1"},
      {R"({"vocab_size": -1})", "-1",
       "`vocab_size` is -1, and a size is at least 1"},
      {R"({"head_dim": true})", "true",
       "`head_dim` is the boolean `true`, not an integer"},
      {R"({"rope_theta": 1e308})", "1e308",
       "`rope_theta` is larger than in any model"},
      {R"({"num_attention_heads": 6, "num_key_value_heads": 4})", "4",
       "4 KV heads cannot serve 6 attention heads: 4 does not divide 6"},
      {R"({"num_attention_heads": 4, "num_key_value_heads": 8})", "8",
       "8 KV heads cannot serve 4 attention heads: 8 does not divide 4"},
      {R"({"num_local_experts": 4, "num_experts_per_tok": 6})", "6",
       "each token goes to 6 experts, and the model has 4 experts"},
      {R"({"num_local_experts": 4, "num_experts_per_tok": 0})", "0",
       "each token goes to 0 experts, and the model has 4 experts"},
      {R"({"hidden_size": 768, "num_attention_heads": 7})", "7",
       "a hidden size of 768 does not divide into 7 attention heads"},
      {R"({"model_type": "llama", "head_dim": 63})", "63",
       "the rotary dimension is 63, which is not even and above 0"},
      {R"({"rope_theta": 10000, "hidden_size": 63, "num_attention_heads": 1})",
       "1", "the rotary dimension is 63, which is not even and above 0"},
      {R"({"head_dim": 64, "rotary_pct": 0.33})", "0.33",
       "the rotary dimension is 21, which is not even and above 0"},
      {R"({"head_dim": 64, "rotary_dim": 1000000})", "1000000",
       "the rotary dimension is 1000000, and a head has 64 elements"},
      {R"({"kv_lora_rank": 512, "qk_nope_head_dim": 1, "qk_rope_head_dim": 63})",
       "63", "the rotary dimension is 63, which is not even and above 0"},
      {R"({"kv_lora_rank": 512, "qk_rope_head_dim": 64, "head_dim": 64})", "64",
       "latent attention has `qk_rope_head_dim` but no `qk_nope_head_dim`"},
      {R"({"n_heads": 48, "attn_config": {"kv_n_heads": 7}})", "7",
       "7 KV heads cannot serve 48 attention heads: 7 does not divide 48"},
      {R"({"ffn_config": {"moe_num_experts": 4, "moe_top_k": 6}})", "6",
       "each token goes to 6 experts, and the model has 4 experts"},
      {R"({"num_experts": 4, "moe_topk": [6, 6]})", "[6, 6]",
       "each token goes to 6 experts, and the model has 4 experts"},
      {R"({"quantization_config": {"group_size": 9007199254740992}})",
       "9007199254740992", "`group_size` is larger than in any model"},
  };
  for (const Bad& bad : kBad) {
    CAPTURE(bad.config);
    const Written file(bad.config);
    Findings findings;
    CHECK_FALSE(ReadModelConfig(file.path, findings));
    REQUIRE(findings.all().size() == 1);
    const Finding& finding = findings.all()[0];
    CHECK(finding.message == bad.message);
    const Place& place = finding.place;
    REQUIRE(place.HasPosition());
    CHECK(bad.config.substr(place.begin, place.end - place.begin) == bad.place);
  }
}

// The keys are those of databricks/dbrx-base.
TEST_CASE("sizes in objects of attention and feed-forward") {
  const Written file(R"({"model_type": "dbrx", "d_model": 6144, "n_heads": 48,
    "attn_config": {"kv_n_heads": 8, "rope_theta": 500000},
    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16,
                   "moe_top_k": 4}})");
  Findings findings;
  const auto config = ReadModelConfig(file.path, findings);
  REQUIRE(config);
  CHECK(config->kv_heads == 8);
  CHECK(config->head_dim == 128);
  CHECK(config->intermediate == 10752);
  CHECK(config->experts == 16);
  CHECK(config->experts_per_token == 4);
  REQUIRE(config->rope);
  CHECK(config->rope->base == 500000);
}

TEST_CASE("the number of experts of a token, by the names of families") {
  struct Case {
    std::string_view text;
    int64_t experts_per_token, moe_intermediate;  // 0: not given
  };
  constexpr Case kCases[] = {
      {R"({"model_type": "ernie4_5_moe", "moe_num_experts": 64, "moe_k": 6,
           "moe_intermediate_size": 1536})",
       6, 1536},
      {R"({"model_type": "longcat_flash", "n_routed_experts": 512,
           "moe_topk": 12})",
       12, 0},
      {R"({"num_experts": 128, "top_k_experts": 8})", 8, 0},
      // Hunyuan-A13B has lists with a value for each layer.
      {R"({"model_type": "hunyuan_v1_moe", "num_experts": 64,
           "moe_topk": [8, 8], "moe_intermediate_size": [3072, 3072]})",
       8, 3072},
      {R"({"num_experts": 64, "moe_topk": [8, 4],
           "moe_intermediate_size": [3072, true]})",
       0, 0},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    const Written file(test.text);
    Findings findings;
    const auto config = ReadModelConfig(file.path, findings);
    REQUIRE(config);
    CHECK(config->experts_per_token.value_or(0) == test.experts_per_token);
    CHECK(config->moe_intermediate.value_or(0) == test.moe_intermediate);
  }
}

// The first two nest configs as those of gemma-3-4b-it and llava-1.5-7b do.
TEST_CASE("sizes that a config omits are those of the family's class") {
  struct Case {
    std::string_view text;
    int64_t heads, kv_heads, head_dim, layers, vocab;  // -1: not given
  };
  constexpr Case kCases[] = {
      {R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
           "hidden_size": 2560, "num_hidden_layers": 34}})",
       8, 4, 256, 34, 262208},
      {R"({"model_type": "llava", "text_config": {"model_type": "llama",
           "vocab_size": 32064}, "vision_config": {"hidden_size": 1024}})",
       32, 32, 128, 32, 32064},
      {R"({"model_type": "gemma4", "text_config": {
           "model_type": "gemma4_text", "hidden_size": 2560}})",
       8, 4, 256, 30, 262144},
      {R"({"model_type": "clip", "text_config": {
           "model_type": "clip_text_model"}, "vision_config": {}})",
       8, 8, 64, 12, 49408},
      // A config that is not nested is written with its other sizes.
      {R"({"model_type": "mistral", "hidden_size": 64,
           "num_attention_heads": 16})",
       16, 8, 4, -1, -1},
      {R"({"model_type": "mistral", "hidden_size": 64,
           "num_attention_heads": 16, "num_key_value_heads": null})",
       16, 16, 4, -1, -1},
      {R"({"model_type": "falcon", "hidden_size": 64,
           "num_attention_heads": 16})",
       16, 1, 4, -1, -1},
      {R"({"model_type": "gpt_bigcode", "n_embd": 64, "n_head": 16})", 16, 1, 4,
       -1, -1},
      {R"({"model_type": "gpt_bigcode", "n_embd": 64, "n_head": 16,
           "multi_query": false})",
       16, 16, 4, -1, -1},
      {R"({"model_type": "qwen3", "hidden_size": 64,
           "num_attention_heads": 64})",
       64, 32, 128, -1, -1},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    const Written file(test.text);
    Findings findings;
    const auto config = ReadModelConfig(file.path, findings);
    REQUIRE(config);
    CHECK(config->heads.value_or(-1) == test.heads);
    CHECK(config->kv_heads.value_or(-1) == test.kv_heads);
    CHECK(config->head_dim.value_or(-1) == test.head_dim);
    CHECK(config->layers.value_or(-1) == test.layers);
    CHECK(config->vocab.value_or(-1) == test.vocab);
  }
}

TEST_CASE("what means none in a configuration is no error") {
  for (const std::string_view config :
       {R"({"num_attention_heads": 6, "num_key_value_heads": null})",
        R"({"sliding_window": -1, "num_local_experts": 0,
            "num_experts_per_tok": 0, "moe_intermediate_size": 0})",
        R"({"num_attention_heads": 71, "n_head_kv": 71, "multi_query": true})",
        R"({"num_attention_heads": [4, 8], "hidden_size": 64})",
        R"({"model_type": "gpt2", "n_embd": 9, "n_head": 3})",
        R"({"model_type": "falcon", "hidden_size": 9, "n_head": 3,
            "alibi": true})",
        R"({"hidden_size": 10, "text_config": {"num_attention_heads": 3}})",
        R"({"num_key_value_heads": 5, "text_config":
            {"num_attention_heads": 3}})"}) {
    CAPTURE(config);
    const Written file(config);
    Findings findings;
    CHECK(ReadModelConfig(file.path, findings));
    CHECK(findings.empty());
  }
}

TEST_CASE("what a configuration leaves open stays open") {
  const Written file(
      "{\"num_attention_heads\": null, \"hidden_size\": null, "
      "\"sliding_window\": -1, \"attention_multiplier\": 0, "
      "\"attn_logit_softcapping\": null, \"attention_dropout\": [0.1], "
      "\"scale_attn_weights\": true, "
      "\"num_key_value_heads\": [1, 2], "
      "\"s\": \"a NaN in a string \\\" NaN\", \"x\": [NaN, -Infinity]}");
  Findings findings;
  const auto config = ReadModelConfig(file.path, findings);
  CHECK(findings.empty());
  REQUIRE(config);
  CHECK_FALSE(config->heads);
  CHECK_FALSE(config->kv_heads);
  CHECK_FALSE(config->hidden);
  CHECK_FALSE(config->sliding_window);
  CHECK_FALSE(config->softmax_scale);
  CHECK_FALSE(config->soft_cap);
  CHECK_FALSE(config->attention_dropout);
  CHECK(config->source->text().find("a NaN in a string") !=
        std::string_view::npos);
}

}  // namespace
}  // namespace shardc
