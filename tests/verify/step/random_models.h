// Small models of ten families, random meshes and rematerialisation policies,
// for tests of whole steps.
#ifndef SHARDC_TESTS_VERIFY_STEP_RANDOM_MODELS_H_
#define SHARDC_TESTS_VERIFY_STEP_RANDOM_MODELS_H_

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/machine/random.h"
#include "families/families.h"
#include "parse/project.h"
#include "plan/compile.h"
#include "step/build.h"
#include "step/recompute.h"
#include "target/open.h"
#include "temporary_folder.h"

namespace shardc::verify {

struct Family {
  const char* pack;
  const char* config;
};

inline const Family kFamilies[] = {
    {"builtin:llama",
     R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 3,
        "rms_norm_eps": 1e-5, "num_attention_heads": 8,
        "num_key_value_heads": 4})"},
    {"builtin:llama",
     R"({"model_type": "qwen2", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-6, "num_attention_heads": 8,
        "num_key_value_heads": 2, "tie_word_embeddings": true,
        "use_sliding_window": false})"},
    {"builtin:mixtral",
     R"({"model_type": "mixtral", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-5, "num_attention_heads": 8,
        "num_key_value_heads": 4, "num_local_experts": 8,
        "num_experts_per_tok": 2, "router_aux_loss_coef": 0.02,
        "output_router_logits": true})"},
    {"builtin:gpt2",
     R"({"model_type": "gpt2", "vocab_size": 256, "n_embd": 64, "n_layer": 2,
        "n_head": 8, "n_positions": 128, "layer_norm_epsilon": 1e-5})"},
    {"builtin:llama4",
     R"({"model_type": "llama4_text", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 64, "intermediate_size_mlp": 128,
        "num_hidden_layers": 4, "rms_norm_eps": 1e-5, "head_dim": 8,
        "num_attention_heads": 8, "num_key_value_heads": 4,
        "num_local_experts": 8, "interleave_moe_layer_step": 2,
        "attention_chunk_size": 16, "floor_scale": 16})"},
    {"builtin:phimoe",
     R"({"model_type": "phimoe", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-5, "num_attention_heads": 8,
        "num_key_value_heads": 4, "num_local_experts": 8,
        "num_experts_per_tok": 2, "router_jitter_noise": 0.2,
        "router_aux_loss_coef": 0.02, "output_router_logits": true})"},
    {"builtin:dbrx",
     R"({"model_type": "dbrx", "vocab_size": 256, "d_model": 64, "n_heads": 8,
        "n_layers": 2, "max_seq_len": 128, "output_router_logits": true,
        "attn_config": {"kv_n_heads": 4, "clip_qkv": 1.5,
                        "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 8,
                       "moe_top_k": 2, "moe_loss_weight": 0.02}})"},
    {"builtin:bert",
     R"({"model_type": "bert", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 8, "max_position_embeddings": 128})"},
    {"builtin:t5",
     R"({"model_type": "t5", "vocab_size": 256, "d_model": 64, "d_kv": 8,
        "d_ff": 128, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 8,
        "relative_attention_num_buckets": 16, "layer_norm_epsilon": 1e-6,
        "relative_attention_max_distance": 48})"},
    {"builtin:whisper",
     R"({"model_type": "whisper", "vocab_size": 256, "num_mel_bins": 16,
        "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 8, "decoder_attention_heads": 8,
        "encoder_ffn_dim": 128, "decoder_ffn_dim": 128,
        "max_source_positions": 32, "max_target_positions": 64})"},
};

// Policies that keep different tensors.
inline const char* const kRemats[] = {
    "nothing_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "save_anything_except_these_names(k_proj,context)",
    "save_any_names_but_these(q_proj)",
    "save_only_these_names(v_proj,qkv_proj)",
    "save_from_both_policies(save_only_these_names(router),checkpoint_dots)"};

struct Model {
  ModelConfig config;
  Manifest manifest;
};

inline Model ModelOf(const Family& family) {
  TemporaryFolder folder;
  const std::string path = folder.Write("config.json", family.config);
  Findings findings;
  auto config = ReadModelConfig(path, findings);
  auto manifest = families::BuildTree(path, "hf", findings);
  REQUIRE(config.has_value());
  REQUIRE(manifest.has_value());
  return {std::move(*config), std::move(*manifest)};
}

inline Mesh RandomMesh(exec::RandomSequence& random) {
  Mesh mesh;
  for (const char* name : {"dp", "fsdp", "ep", "tp", "sp"}) {
    const int64_t size = int64_t{1} << random.Below(3);
    const int64_t fits = mesh.devices * size <= 16 ? size : 1;
    if (random.Chance(0.4) || fits == 1) continue;
    mesh.axes.push_back({name, fits, AxisType::kAuto});
    mesh.devices *= fits;
  }
  if (mesh.axes.empty()) mesh.axes.push_back({"tp", 1, AxisType::kAuto});
  return mesh;
}

inline std::unique_ptr<const Compiled> CompiledOn(const Mesh& mesh,
                                                  const Family& family,
                                                  const Model& model) {
  Findings findings;
  auto rules = OpenRules({family.pack}, "", &model.manifest, "", findings);
  REQUIRE(rules.has_value());
  CompileOptions options;
  options.policy.illegal = IllegalPolicy::kShrink;
  auto compiled =
      Compile(mesh, std::move(*rules), model.manifest, options, findings);
  REQUIRE(compiled != nullptr);
  return compiled;
}

// Returns the mode, or prefill if the model has no step of that mode.
inline Mode ModeOr(Mode mode, const Compiled& compiled, const Model& model) {
  const bool has = step::HasMode(*compiled.rules.model, &model.config, mode);
  return has ? mode : Mode::kPrefill;
}

inline step::Remat RandomRemat(exec::RandomSequence& random) {
  std::string why;
  return *step::ParseRemat(kRemats[random.Below(std::size(kRemats))], why);
}

// Returns the number of cases: `sample`, or the value of the environment
// variable if it is set.
inline int64_t CasesOf(const char* variable, int64_t sample) {
  const char* const asked = std::getenv(variable);
  return asked != nullptr ? std::atoll(asked) : sample;
}

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_STEP_RANDOM_MODELS_H_
