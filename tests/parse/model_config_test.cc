// Reads real configurations of many families. The expected numbers are from the
// models' papers and cards, and agree with the shapes in their checkpoints.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "parse/project.h"
#include "source/json.h"

namespace shardc {
namespace {

namespace fs = std::filesystem;

// The expected numbers of a model; 0: the configuration does not have the
// number.
struct Model {
  std::string_view file;
  std::string_view type;
  int64_t heads, kv_heads, head_dim, hidden, intermediate, layers, vocab;
  int64_t experts, experts_per_token, moe_intermediate;
  int64_t sliding_window, max_positions;
  bool tied;
  int64_t quant_group;
};

// clang-format off
constexpr Model kModels[] = {
    {"bloom-176b", "bloom", 112, 112, 128, 14336, 57344, 70, 250880, 0, 0, 0, 0, 0, true, 0},
    {"clip-vit-large-patch14.alt-text", "clip_text_model", 12, 12, 64, 768, 3072, 12, 49408, 0, 0, 0, 0, 77, false, 0},
    {"clip-vit-large-patch14", "clip", 12, 12, 64, 768, 3072, 12, 49408, 0, 0, 0, 0, 77, true, 0},
    {"deepseek-v3.1", "deepseek_v3", 128, 128, 192, 7168, 18432, 61, 129280, 256, 8, 2048, 0, 163840, false, 128},
    {"deepseek-v3", "deepseek_v3", 128, 128, 192, 7168, 18432, 61, 129280, 256, 8, 2048, 0, 163840, false, 128},
    {"devstral-small-24b", "mistral", 32, 8, 128, 5120, 32768, 40, 131072, 0, 0, 0, 0, 131072, false, 0},
    {"falcon-180b", "falcon", 232, 8, 64, 14848, 59392, 80, 65024, 0, 0, 0, 0, 0, false, 0},
    {"falcon-40b", "falcon", 128, 8, 64, 8192, 32768, 60, 65024, 0, 0, 0, 0, 0, false, 0},
    {"falcon-7b.alt-refinedweb", "RefinedWebModel", 71, 1, 64, 4544, 18176, 32, 65024, 0, 0, 0, 0, 0, false, 0},
    {"falcon-7b", "falcon", 71, 1, 64, 4544, 18176, 32, 65024, 0, 0, 0, 0, 0, false, 0},
    {"gemma-2-9b", "gemma2", 16, 8, 256, 3584, 14336, 42, 256000, 0, 0, 0, 4096, 8192, true, 0},
    {"gemma-2b", "gemma", 8, 1, 256, 2048, 16384, 18, 256000, 0, 0, 0, 0, 8192, true, 0},
    {"gemma-3-1b", "gemma3_text", 4, 1, 256, 1152, 6912, 26, 262144, 0, 0, 0, 512, 32768, true, 0},
    {"gemma-3-27b", "gemma3", 32, 16, 128, 5376, 21504, 62, 262208, 0, 0, 0, 1024, 131072, true, 0},
    {"gpt-j-6b", "gptj", 16, 16, 256, 4096, 16384, 28, 50400, 0, 0, 0, 0, 2048, false, 0},
    {"gpt-neox-20b", "gpt_neox", 64, 64, 96, 6144, 24576, 44, 50432, 0, 0, 0, 0, 2048, false, 0},
    {"gpt-oss-120b", "gpt_oss", 64, 8, 64, 2880, 2880, 36, 201088, 128, 4, 0, 128, 131072, false, 32},
    {"gpt-oss-20b", "gpt_oss", 64, 8, 64, 2880, 2880, 24, 201088, 32, 4, 0, 128, 131072, false, 32},
    {"gpt2-xl", "gpt2", 25, 25, 64, 1600, 6400, 48, 50257, 0, 0, 0, 0, 1024, true, 0},
    {"gpt2", "gpt2", 12, 12, 64, 768, 3072, 12, 50257, 0, 0, 0, 0, 1024, true, 0},
    {"granite-3.1-1b-a400m", "granitemoe", 16, 8, 64, 1024, 512, 24, 49155, 32, 8, 0, 0, 131072, true, 0},
    {"internlm-20b", "llama", 40, 40, 128, 5120, 13824, 60, 103168, 0, 0, 0, 0, 4096, false, 0},
    {"llama-2-13b", "llama", 40, 40, 128, 5120, 13824, 40, 32000, 0, 0, 0, 0, 4096, false, 0},
    {"llama-2-70b.alt-neuronx", "llama", 64, 8, 128, 8192, 28672, 80, 32000, 0, 0, 0, 0, 4096, false, 0},
    {"llama-2-70b", "llama", 64, 8, 128, 8192, 28672, 80, 32000, 0, 0, 0, 0, 4096, false, 0},
    {"llama-2-7b.alt-neuronx", "llama", 32, 32, 128, 4096, 11008, 32, 32000, 0, 0, 0, 0, 2048, false, 0},
    {"llama-2-7b", "llama", 32, 32, 128, 4096, 11008, 32, 32000, 0, 0, 0, 0, 4096, false, 0},
    {"llama-3-70b", "llama", 64, 8, 128, 8192, 28672, 80, 128256, 0, 0, 0, 0, 8192, false, 0},
    {"llama-3-8b", "llama", 32, 8, 128, 4096, 14336, 32, 128256, 0, 0, 0, 0, 8192, false, 0},
    {"llama-3.1-405b", "llama", 128, 8, 128, 16384, 53248, 126, 128256, 0, 0, 0, 0, 131072, false, 0},
    {"llama-3.1-70b", "llama", 64, 8, 128, 8192, 28672, 80, 128256, 0, 0, 0, 0, 131072, false, 0},
    {"llama-3.1-8b", "llama", 32, 8, 128, 4096, 14336, 32, 128256, 0, 0, 0, 0, 131072, false, 0},
    {"llama-3.2-1b", "llama", 32, 8, 64, 2048, 8192, 16, 128256, 0, 0, 0, 0, 131072, true, 0},
    {"llama-4-maverick", "llama4", 40, 8, 128, 5120, 16384, 48, 202048, 128, 1, 8192, 0, 1048576, false, 0},
    {"mistral-7b", "mistral", 32, 8, 128, 4096, 14336, 32, 32768, 0, 0, 0, 0, 32768, false, 0},
    {"mixtral-8x22b.alt-wizardlm2", "mixtral", 48, 8, 128, 6144, 16384, 56, 32000, 8, 2, 0, 0, 65536, false, 0},
    {"mixtral-8x22b", "mixtral", 48, 8, 128, 6144, 16384, 56, 32000, 8, 2, 0, 0, 65536, false, 0},
    {"mixtral-8x7b", "mixtral", 32, 8, 128, 4096, 14336, 32, 32000, 8, 2, 0, 0, 32768, false, 0},
    {"nemotron-h-56b", "nemotron_h", 64, 8, 128, 8192, 32768, 118, 131072, 0, 0, 0, 0, 8192, false, 0},
    {"opt-1.3b", "opt", 32, 32, 64, 2048, 8192, 24, 50272, 0, 0, 0, 0, 2048, true, 0},
    {"opt-13b", "opt", 40, 40, 128, 5120, 20480, 40, 50272, 0, 0, 0, 0, 2048, true, 0},
    {"opt-2.7b", "opt", 32, 32, 80, 2560, 10240, 32, 50272, 0, 0, 0, 0, 2048, true, 0},
    {"opt-30b", "opt", 56, 56, 128, 7168, 28672, 48, 50272, 0, 0, 0, 0, 2048, true, 0},
    {"opt-6.7b", "opt", 32, 32, 128, 4096, 16384, 32, 50272, 0, 0, 0, 0, 2048, true, 0},
    {"phi-2.alt-mixformer", "mixformer-sequential", 32, 32, 80, 2560, 10240, 32, 51200, 0, 0, 0, 0, 2048, false, 0},
    {"phi-2", "phi", 32, 32, 80, 2560, 10240, 32, 51200, 0, 0, 0, 0, 2048, false, 0},
    {"qwen-72b", "qwen", 64, 64, 128, 8192, 24576, 80, 152064, 0, 0, 0, 0, 8192, false, 0},
    {"qwen2-0.5b", "qwen2", 14, 2, 64, 896, 4864, 24, 151936, 0, 0, 0, 0, 131072, true, 0},
    {"qwen2-7b.alt-vl-olmocr", "qwen2_vl", 28, 4, 128, 3584, 18944, 28, 152064, 0, 0, 0, 0, 32768, false, 0},
    {"qwen2-7b", "qwen2", 28, 4, 128, 3584, 18944, 28, 152064, 0, 0, 0, 0, 32768, false, 0},
    {"qwen3-0.6b", "qwen3", 16, 8, 128, 1024, 3072, 28, 151936, 0, 0, 0, 0, 40960, true, 0},
    {"qwen3-235b-a22b", "qwen3_moe", 64, 4, 128, 4096, 12288, 94, 151936, 128, 8, 1536, 0, 40960, false, 0},
    {"qwen3-30b-a3b", "qwen3_moe", 32, 4, 128, 2048, 6144, 48, 151936, 128, 8, 768, 0, 40960, false, 0},
    {"qwen3-32b", "qwen3", 64, 8, 128, 5120, 25600, 64, 151936, 0, 0, 0, 0, 40960, false, 0},
    {"qwen3-8b", "qwen3", 32, 8, 128, 4096, 12288, 36, 151936, 0, 0, 0, 0, 40960, false, 0},
    {"redpajama-incite-7b", "gpt_neox", 32, 32, 128, 4096, 16384, 32, 50432, 0, 0, 0, 0, 2048, false, 0},
    {"t5-small", "t5", 8, 8, 64, 512, 2048, 6, 32128, 0, 0, 0, 0, 512, true, 0},
    {"t5-v1.1-xxl", "t5", 64, 64, 64, 4096, 10240, 24, 32128, 0, 0, 0, 0, 0, false, 0},
    {"vit-base-patch16-224", "vit", 12, 12, 64, 768, 3072, 12, 0, 0, 0, 0, 0, 0, false, 0},
    {"whisper-base", "whisper", 8, 8, 64, 512, 2048, 6, 51865, 0, 0, 0, 0, 448, true, 0},
    {"whisper-large-v3", "whisper", 20, 20, 64, 1280, 5120, 32, 51866, 0, 0, 0, 0, 448, true, 0},
    {"whisper-tiny", "whisper", 6, 6, 64, 384, 1536, 4, 51865, 0, 0, 0, 0, 448, true, 0},
};
// clang-format on

fs::path Folder() {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  return fs::path(root == nullptr ? "." : root) / "testdata" / "configs";
}

TEST_CASE("real configurations of many families") {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(Folder())) {
    files += entry.path().filename().string().ends_with(".config.json");
  }
  CHECK(files == std::size(kModels));
  for (const Model& model : kModels) {
    CAPTURE(model.file);
    Findings findings;
    const auto config = ReadModelConfig(
        (Folder() / (std::string(model.file) + ".config.json")).string(),
        findings);
    CHECK(findings.empty());
    REQUIRE(config);
    CHECK(config->model_type == model.type);
    CHECK(config->heads.value_or(0) == model.heads);
    CHECK(config->kv_heads.value_or(0) == model.kv_heads);
    CHECK(config->head_dim.value_or(0) == model.head_dim);
    CHECK(config->hidden.value_or(0) == model.hidden);
    CHECK(config->intermediate.value_or(0) == model.intermediate);
    CHECK(config->layers.value_or(0) == model.layers);
    CHECK(config->vocab.value_or(0) == model.vocab);
    CHECK(config->experts.value_or(0) == model.experts);
    CHECK(config->experts_per_token.value_or(0) == model.experts_per_token);
    CHECK(config->moe_intermediate.value_or(0) == model.moe_intermediate);
    CHECK(config->sliding_window.value_or(0) == model.sliding_window);
    CHECK(config->max_positions.value_or(0) == model.max_positions);
    CHECK(config->tied_embeddings == model.tied);
    CHECK(config->quant_group.value_or(0) == model.quant_group);
    CHECK(config->source != nullptr);
  }
}

TEST_CASE("what attention is besides its sizes") {
  struct Means {
    std::string_view file;
    double scale;  // 0: 1/sqrt(head_dim)
    std::string_view source;
    double soft_cap, dropout;
    bool sinks;
  };
  constexpr Means kMeans[] = {
      {"gemma-2-9b", 0.0668153104781, "query_pre_attn_scalar 224", 50, 0,
       false},
      {"gemma-3-1b", 0.0625, "query_pre_attn_scalar 256", 0, 0, false},
      {"gemma-3-27b", 0.0771516749810, "query_pre_attn_scalar 168", 0, 0,
       false},
      {"granite-3.1-1b-a400m", 0.015625, "attention_multiplier 0.015625", 0, 0,
       false},
      {"t5-small", 1, "model_type t5", 0, 0, false},
      {"t5-v1.1-xxl", 1, "model_type t5", 0, 0, false},
      // The scale with yarn is 192^-0.5 (0.1 ln 40 + 1)^2.
      {"deepseek-v3", 0.135233779187, "mscale_all_dim 1.0", 0, 0, false},
      {"deepseek-v3.1", 0.135233779187, "mscale_all_dim 1.0", 0, 0, false},
      {"gpt2", 0, "", 0, 0.1, false},
      {"gpt2-xl", 0, "", 0, 0.1, false},
      {"gpt-oss-20b", 0, "", 0, 0, true},
      {"gpt-oss-120b", 0, "", 0, 0, true},
  };
  for (const Model& model : kModels) {
    CAPTURE(model.file);
    Means want = {};
    for (const Means& means : kMeans) {
      if (means.file == model.file) want = means;
    }
    Findings findings;
    const auto config = ReadModelConfig(
        (Folder() / (std::string(model.file) + ".config.json")).string(),
        findings);
    REQUIRE(config);
    CHECK(config->softmax_scale.has_value() == (want.scale > 0));
    CHECK(config->softmax_scale.value_or(0) ==
          doctest::Approx(want.scale).epsilon(1e-9));
    CHECK(config->softmax_scale_source == want.source);
    CHECK(config->soft_cap.value_or(0) == want.soft_cap);
    CHECK(config->attention_dropout.value_or(0) == want.dropout);
    CHECK(config->attention_sinks == want.sinks);
  }
}

TEST_CASE("how positions turn queries and keys, and what a latent row holds") {
  struct Means {
    std::string_view file;
    double base;
    std::string_view scaling;
    double factor, original;
  };
  constexpr Means kRopes[] = {
      {"llama-2-7b", 10000, "", 1, 0},
      {"llama-3-8b", 500000, "", 1, 0},
      {"llama-3.1-8b", 500000, "llama3", 8, 8192},
      {"gemma-3-27b", 1000000, "linear", 8, 131072},
      {"gpt-oss-20b", 150000, "yarn", 32, 4096},
      {"deepseek-v3", 10000, "yarn", 40, 4096},
      {"mixtral-8x7b", 1000000, "", 1, 0},
  };
  const auto read = [](std::string_view file) {
    Findings findings;
    return ReadModelConfig(
        (Folder() / (std::string(file) + ".config.json")).string(), findings);
  };
  for (const Means& want : kRopes) {
    CAPTURE(want.file);
    const auto config = read(want.file);
    REQUIRE(config);
    REQUIRE(config->rope);
    CHECK(config->rope->base == want.base);
    CHECK(config->rope->scaling == want.scaling);
    CHECK(config->rope->factor == want.factor);
    CHECK(config->rope->original_length == want.original);
    CHECK(config->rope->truncate == (want.file != "gpt-oss-20b"));
  }
  CHECK_FALSE(read("gpt2")->rope);
  const auto llama = read("llama-3.1-8b");
  CHECK(llama->rope->low_frequency_factor == 1);
  CHECK(llama->rope->high_frequency_factor == 4);
  CHECK_FALSE(llama->latent_rank);
  const auto latent = read("deepseek-v3");
  CHECK(latent->rope->attention_factor == 1);
  CHECK(latent->latent_rank == 512);
  CHECK(latent->latent_rope_dim == 64);
  CHECK(latent->latent_value_dim == 128);
}

TEST_CASE("a configuration states the rows of a block") {
  const struct {
    std::string_view quantisation;
    int64_t rows;
  } kConfigs[] = {
      {R"({"weight_block_size": [128, 64]})", 128},
      {R"({"weight_block_size": [64]})", 1},
      {R"({"weight_block_size": null})", 1},
      {R"({"group_size": 128})", 1},
      {R"({"config_groups": {"a": {"weights": {"block_structure": [32, 64]}},
                             "b": {"weights": null}}})",
       32},
      {R"({"config_groups": {"a": {"weights": {"block_structure": [32, 64]}},
                             "b": {"weights": {"group_size": 16}}}})",
       1},
  };
  for (const auto& [json, rows] : kConfigs) {
    const std::string_view quantisation = json;
    CAPTURE(quantisation);
    Findings findings;
    const auto document = JsonDocument::Parse(
        MakeSource("config.json", "{\"quantization_config\": " +
                                      std::string(quantisation) + "}"),
        findings);
    REQUIRE(document);
    const auto model = ReadModelConfig(*document, findings);
    REQUIRE(model);
    CHECK(model->quant_rows == rows);
  }
}

}  // namespace
}  // namespace shardc
