#include "target/choose.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace shardc {
namespace {

Manifest ManifestOf(std::vector<std::string> names, char separator) {
  ManifestBuilder builder;
  for (const std::string& name : names) builder.Add(name, {});
  builder.manifest().separator = separator;
  return builder.Take();
}

TEST_CASE("packs are embedded in the library in both namings") {
  const auto packs = BuiltinPacks();
  REQUIRE_FALSE(packs.empty());
  CHECK(std::is_sorted(packs.begin(), packs.end(),
                       [](const BuiltinPack& a, const BuiltinPack& b) {
                         return a.FullName() < b.FullName();
                       }));
  for (const BuiltinPack& pack : packs) {
    CAPTURE(pack.FullName());
    CHECK((pack.naming == "flax" || pack.naming == "hf"));
    CHECK(pack.text.find("rules:") != std::string_view::npos);
  }
}

TEST_CASE("a pack without a naming takes that of the separator") {
  CHECK(FindPack("builtin:llama", '.')->name() == "builtin:llama/hf");
  CHECK(FindPack("llama", '/')->name() == "builtin:llama/flax");
  CHECK(FindPack("builtin:llama/flax", '.')->name() == "builtin:llama/flax");
  CHECK(FindPack("builtin:lama", '/') == nullptr);
  CHECK(FindPack("llama/jax", '/') == nullptr);
}

TEST_CASE("a pack is found without a naming if none is given") {
  CHECK(FindPack("builtin:falcon", "")->name() == "builtin:falcon/hf");
  CHECK(FindPack("builtin:maxtext", "")->name() == "builtin:maxtext/flax");
  CHECK(FindPack("builtin:llama", "")->name() == "builtin:llama/flax");
  CHECK(FindPack("builtin:falcon", "flax") == nullptr);
  CHECK(FindPack("builtin:lama", "") == nullptr);
}

TEST_CASE("names for --rules are sorted and distinct") {
  const auto names = PackNames();
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(std::count(names.begin(), names.end(), "auto") == 1);
  CHECK(std::count(names.begin(), names.end(), "builtin:llama") == 1);
  CHECK(std::count(names.begin(), names.end(), "builtin:llama/hf") == 1);
}

TEST_CASE("auto compares parts of names, then the model's own name") {
  const Manifest llama = ManifestOf(
      {"model.layers.0.self_attn.q_proj.weight", "l.mlp.gate_proj.weight"},
      '.');
  CHECK(PickPack(llama, "") == "builtin:llama/hf");
  CHECK(PickPack(llama, "Gemma") == "builtin:gemma/hf");
  const Manifest gpt2 =
      ManifestOf({"h/0/attn/c_attn/kernel", "wpe/embedding"}, '/');
  CHECK(PickPack(gpt2, "") == "builtin:gpt2/flax");
  const Manifest mixtral = ManifestOf(
      {"l.self_attn.q_proj.weight", "l.block_sparse_moe.gate.weight"}, '.');
  CHECK(PickPack(mixtral, "") == "builtin:mixtral/hf");
  // Only complete parts of names are compared: `my_self_attn` is not
  // `self_attn`.
  CHECK_FALSE(PickPack(
      ManifestOf({"my_self_attn.weight", "l.gate_proj.weight"}, '.'), ""));
  CHECK_FALSE(PickPack(ManifestOf({"l.self_attn.weight", "l.gate_proj.weight",
                                   "l.experts.0.weight"},
                                  '.'),
                       ""));
}

TEST_CASE("auto distinguishes related families") {
  const auto picked = [](std::vector<std::string> names,
                         std::string_view model = "") {
    return PickPack(ManifestOf(std::move(names), '.'), model).value_or("none");
  };
  const std::string q = "l.self_attn.q_proj.weight", mlp = "l.mlp.";
  const std::string gate = mlp + "gate_proj.weight";
  CHECK(picked({q, gate, "l.norm.bias"}) == "builtin:stablelm/hf");
  CHECK(picked({q, gate, "l.q_proj.bias", "l.norm.weight"}) ==
        "builtin:llama/hf");
  CHECK(picked({q, gate, "l.input_layernorm.weight"}) == "builtin:cohere/hf");
  CHECK(picked({q, gate, "l.input_layernorm.weight",
                "l.post_attention_layernorm.weight"}) == "builtin:llama/hf");
  CHECK(picked({q, gate, "embed_tokens.weight"}) == "builtin:olmo/hf");
  CHECK(picked({q, gate, "embed_tokens.weight"}, "exaone4") ==
        "builtin:llama/hf");
  const std::string projector = "multi_modal_projector.linear_1.weight";
  CHECK(picked({q, gate, projector, "vision_tower.patch_conv.weight"}) ==
        "builtin:llava/hf");
  // Llama 3.2 Vision, with its tower and without.
  const std::string crossed = "l.cross_attn_attn_gate";
  CHECK(picked({q, gate, projector, crossed}) == "builtin:llava/hf");
  CHECK(picked({q, gate, "lm_head.weight", crossed}) == "builtin:llava/hf");
  CHECK(picked({q, gate, projector, "l.pre_feedforward_layernorm.weight",
                "vision_tower.embeddings.patch_embedding.weight"}) ==
        "builtin:gemma/hf");
  const std::string experts = mlp + "experts.gate_up_proj";
  CHECK(picked({q, experts, mlp + "gate.weight"}) == "builtin:mixtral/hf");
  CHECK(picked({q, experts, mlp + "gate.weight",
                "l.self_attn.q_norm.weight"}) == "builtin:qwen_moe/hf");
  CHECK(picked({q, experts, mlp + "gate.weight", "l.self_attn.q_norm.weight"},
               "OLMoE") == "builtin:olmoe/hf");
  CHECK(picked({q, experts, mlp + "shared_experts.up_proj.weight"}) ==
        "builtin:deepseek/hf");
  // No pack is chosen if some layers are of a kind that the pack does not
  // cover.
  CHECK(picked({q, experts, mlp + "gate.weight", "l.self_attn.q_norm.weight",
                "l.linear_attn.A_log"}) == "none");
  // gpt_bigcode has the names of GPT-2 with transposed weights, so the model's
  // name decides.
  CHECK(picked({"h.0.attn.c_attn.weight", "wpe.weight"}, "gpt_bigcode") ==
        "builtin:gpt_bigcode/hf");
  CHECK(picked({"h.0.attn.attention.q_proj.weight", "h.0.mlp.c_fc.weight"}) ==
        "builtin:gpt_neo/hf");
  // Several families use this name for experts, so the other names decide.
  const std::string moe = "l.block_sparse_moe.";
  CHECK(picked({q, moe + "gate.weight", "norm.bias"}) == "builtin:phimoe/hf");
  CHECK(picked({q, moe + "router.weight"}) == "builtin:granitemoe/hf");
  CHECK(picked({q, experts, mlp + "router.weight", "norm.bias"}) ==
        "builtin:phimoe/hf");
  CHECK(picked({q, mlp + "up_proj.weight", "norm.bias"}) ==
        "builtin:nemotron/hf");
  CHECK(picked({q, mlp + "up_proj.weight", "l.mixer.D", "norm.bias"}) ==
        "none");
  CHECK(picked({"b.0.attn.Wqkv.weight", "b.0.ffn.up_proj.weight",
                "b.0.norm_1.weight"}) == "builtin:mpt/hf");
  CHECK(picked({"b.0.norm_attn_norm.attn.Wqkv.weight",
                "b.0.ffn.experts.mlp.w1"}) == "builtin:dbrx/hf");
  // The family has a pack, but none for these flax names.
  CHECK_FALSE(PickPack(ManifestOf({"l/self_attn/q/kernel", "l/mlp/dense/kernel",
                                   "l/mlp/fc1/kernel"},
                                  '/'),
                       ""));
}

}  // namespace
}  // namespace shardc
