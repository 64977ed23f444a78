// The sizes that a config, or a config nested in it, does not state.
#include <string>
#include <string_view>
#include <vector>

#include "doctest/doctest.h"
#include "families/configs.h"
#include "families/families.h"

namespace shardc::families {
namespace {

TEST_CASE("an absent key has the value that transformers' class gives it") {
  struct Case {
    std::string family, more;
    int64_t rows;  // of k_proj: KV heads times the size of a head
  };
  const std::vector<Case> cases = {
      {"llama", "", 2 * 4},
      {"mistral", "", 8 * 4},
      {"mistral", R"(, "num_key_value_heads": null)", 2 * 4},
      {"mistral", R"(, "num_key_value_heads": 1)", 1 * 4},
      {"ministral", "", 8 * 4},
      {"qwen2", "", 32 * 4},
      {"qwen3", "", 32 * 128},
      {"gemma", "", 16 * 256},
      {"gemma2", "", 4 * 256},
      {"helium", "", 20 * 128},
      {"seed_oss", "", 8 * 128},
      {"seed_oss", R"(, "head_dim": null)", 8 * 4},
      {"smollm3", "", 4 * 4},
      {"starcoder2", "", 2 * 4},
      {"cohere", R"(, "head_dim": 6)", 2 * 6},
      {"cohere2", R"(, "head_dim": 6)", 2 * 6},
      {"granite", R"(, "head_dim": 6)", 2 * 6},
      {"olmo", R"(, "head_dim": 6)", 2 * 6},
      {"olmo2", R"(, "head_dim": 6)", 2 * 6},
      {"qwen2", R"(, "head_dim": 6)", 32 * 6},
      {"starcoder2", R"(, "head_dim": 6)", 2 * 6},
  };
  for (const Case& test : cases) {
    CAPTURE(test.family);
    CAPTURE(test.more);
    std::string config = With("model_type", "\"" + test.family + "\"");
    config.insert(config.size() - 1, test.more);
    CHECK(RowsOf(config, "model.layers.0.self_attn.k_proj.weight") ==
          test.rows);
  }
  const std::string nested =
      R"({"model_type": "gemma3", "vision_config": {"hidden_size": 4,)"
      R"( "num_attention_heads": 1, "num_hidden_layers": 1,)"
      R"( "intermediate_size": 4}, "text_config": {"model_type":)"
      R"( "gemma3_text", "hidden_size": 8, "num_hidden_layers": 1}})";
  const std::string text = "model.language_model.";
  CHECK(RowsOf(nested, text + "embed_tokens.weight") == 262208);
  CHECK(RowsOf(nested, text + "layers.0.self_attn.q_proj.weight") == 8 * 256);
  CHECK(RowsOf(nested, text + "layers.0.self_attn.k_proj.weight") == 4 * 256);
  CHECK(RowsOf(nested, text + "layers.0.mlp.up_proj.weight") == 9216);
  for (const std::string type : {"qwen2_vl", "qwen2_5_vl"}) {
    CAPTURE(type);
    const std::string config = R"({"model_type": ")" + type +
                               R"(", "vision_config": {"depth": 1}, )"
                               R"("text_config": {"num_hidden_layers": 1)";
    CHECK(RowsOf(config + "}}", "lm_head.weight") == 152064);
    CHECK(RowsOf(config + "}}", text + "layers.0.mlp.up_proj.weight") == 29568);
    // As in the model of 32B.
    CHECK(
        RowsOf(config + R"(, "hidden_size": 5120, "num_attention_heads": 40}})",
               text + "layers.0.self_attn.k_proj.weight") == 8 * 128);
  }
  const std::string towers =
      R"({"model_type": "clip", "text_config": {"num_hidden_layers": 1},)"
      R"( "vision_config": {"num_hidden_layers": 1}})";
  CHECK(RowsOf(towers, "text_model.final_layer_norm.weight") == 512);
  CHECK(RowsOf(towers, "text_model.encoder.layers.0.mlp.fc1.weight") == 2048);
  CHECK(RowsOf(towers, "vision_model.post_layernorm.weight") == 768);
  CHECK(RowsOf(towers, "vision_model.encoder.layers.0.mlp.fc1.weight") == 3072);
  std::string tied = With("model_type", "\"phimoe\"");
  tied.insert(tied.size() - 1, R"(, "num_local_experts": 4,)"
                               R"( "tie_word_embeddings": true,)"
                               R"( "lm_head_bias": true)");
  CHECK(RowsOf(tied, "lm_head.weight") == 0);
  CHECK(RowsOf(tied, "lm_head.bias") == 10);
  const std::string latent =
      R"({"model_type": "deepseek_v3", "vocab_size": 10, "hidden_size": 8,)"
      R"( "intermediate_size": 12, "moe_intermediate_size": 12,)"
      R"( "num_hidden_layers": 1, "num_attention_heads": 2,)"
      R"( "n_routed_experts": 4, "kv_lora_rank": 6, "qk_nope_head_dim": 4,)"
      R"( "qk_rope_head_dim": 2, "v_head_dim": 4)";
  const std::string_view down = "model.layers.0.self_attn.q_a_proj.weight";
  CHECK(RowsOf(latent + "}", down) == 1536);
  CHECK(RowsOf(latent + R"(, "q_lora_rank": 5})", down) == 5);
  CHECK(RowsOf(latent + R"(, "q_lora_rank": null})", down) == 0);
}

TEST_CASE(
    "a text model or tower is of the type that its config names, with the "
    "sizes of that type's class") {
  const auto llava = [](const std::string& type, const std::string& text,
                        const std::string& more) {
    return R"({"model_type": ")" + type +
           R"(", "vision_config": {"hidden_size": 4, "num_hidden_layers": 1,)"
           R"( "intermediate_size": 4}, "text_config": {)" +
           text + "\"num_hidden_layers\": 1}" + more + "}";
  };
  const std::string text = "model.language_model.";
  const std::string tower = "model.vision_tower.";
  const std::string plain = llava("llava", "", "");
  CHECK(RowsOf(plain, text + "embed_tokens.weight") == 32000);
  CHECK(RowsOf(plain, text + "layers.0.self_attn.k_proj.weight") == 4096);
  CHECK(RowsOf(plain, text + "layers.0.mlp.up_proj.weight") == 11008);
  CHECK(RowsOf(plain, "lm_head.weight") == 32000);
  CHECK(RowsOf(plain, tower + "embeddings.position_embedding.weight") == 50);
  CHECK(RowsOf(plain, "model.multi_modal_projector.linear_1.bias") == 4096);
  const std::string qwen = llava(
      "llava", R"("model_type": "qwen2", "num_key_value_heads": 2, )", "");
  CHECK(RowsOf(qwen, text + "embed_tokens.weight") == 151936);
  CHECK(RowsOf(qwen, text + "layers.0.self_attn.k_proj.bias") == 2 * 128);
  CHECK(RowsOf(qwen, "lm_head.weight") == 151936);
  // The head is tied as the text model's type has it, and has no bias.
  const std::string sizes =
      R"("vocab_size": 6, "hidden_size": 8, "intermediate_size": 4,)"
      R"( "num_attention_heads": 2, "num_key_value_heads": 2, )";
  struct Head {
    std::string type, text, more;
    int64_t rows;
  };
  const std::vector<Head> heads = {
      {"phi", "", "", 6},
      {"cohere", "", "", 0},
      {"gemma", "", "", 0},
      {"starcoder2", "", "", 0},
      {"starcoder2", R"("tie_word_embeddings": false, )", "", 6},
      {"llama", R"("tie_word_embeddings": true, )", "", 0},
      {"llama", "", R"(, "tie_word_embeddings": true)", 0},
  };
  for (const Head& test : heads) {
    CAPTURE(test.type);
    const std::string config = llava(
        "llava", R"("model_type": ")" + test.type + "\", " + sizes + test.text,
        test.more);
    CHECK(RowsOf(config, text + "embed_tokens.weight") == 6);
    CHECK(RowsOf(config, "lm_head.weight") == test.rows);
    CHECK(RowsOf(config, "lm_head.bias") == 0);
  }
  const std::string mistral = llava("mistral3", "", "");
  CHECK(RowsOf(mistral, text + "layers.0.self_attn.k_proj.weight") == 8 * 128);
  CHECK(RowsOf(mistral, "lm_head.weight") == 0);
  CHECK(RowsOf(mistral, tower + "patch_conv.weight") == 4);
  CHECK(RowsOf(llava("mistral3", "", R"(, "tie_word_embeddings": false)"),
               "lm_head.weight") == 32000);
  CHECK(RowsOf(llava("mistral3", "", R"(, "transformers_version": "4.57.1")"),
               "lm_head.weight") == 32000);
  CHECK(RowsOf(llava("mistral3", R"("tie_word_embeddings": true, )",
                     R"(, "transformers_version": "4.57.1")"),
               "lm_head.weight") == 0);
  // Several layers of the tower are concatenated.
  const auto document =
      Config(llava("llava", "", R"(, "vision_feature_layer": [-2, -5, -8])"));
  Findings findings;
  const auto tree = BuildTree(*document, "hf", findings);
  REQUIRE(tree);
  for (const Tensor& tensor : tree->tensors) {
    if (!tensor.name.ends_with("linear_1.weight")) continue;
    CHECK(*tree->TypeOf(tensor).shape == Shape{4096, 12});
  }
  CHECK(
      Refused(llava("llava", R"("model_type": "lama", "hidden_size": 8, )", ""))
          .starts_with("there is no description of model type `lama` @ "
                       "\"lama\" -> did you mean `llama`?"));
  CHECK(Refused(llava("llava", R"("model_type": "bert", "hidden_size": 8, )",
                      "")) ==
        "a model of type `bert` inside one of type `llava` is not described @ "
        "\"bert\" -> the parameters of `bert` have other names; write a "
        "manifest for this model");
  CHECK(Refused(R"({"model_type": "llava", "vision_config": {"model_type": 7},)"
                R"( "text_config": {"num_hidden_layers": 1}})") ==
        "`model_type` is the number `7`, not a string @ 7 -> ");
}

}  // namespace
}  // namespace shardc::families
