#include "suggest/suggest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "suggest/tree.h"

namespace shardc::suggest {
namespace {

Suggestion For(const Manifest& manifest, const Mesh& mesh,
               const ModelConfig* model = nullptr,
               const Preferences& preferences = {}) {
  return Suggest({&manifest, &mesh, model, preferences});
}

std::vector<NamedShape> Llama(int64_t d, int64_t q, int64_t kv, int64_t f,
                              int64_t vocab, bool turned = false) {
  const auto matrix = [&](int64_t out, int64_t in) {
    return turned ? Shape{in, out} : Shape{out, in};
  };
  return Layers({{"embed_tokens.weight", {vocab, d}},
                 {"layers.*.self_attn.q_proj.weight", matrix(q, d)},
                 {"layers.*.self_attn.k_proj.weight", matrix(kv, d)},
                 {"layers.*.self_attn.v_proj.weight", matrix(kv, d)},
                 {"layers.*.self_attn.o_proj.weight", matrix(d, q)},
                 {"layers.*.mlp.gate_proj.weight", matrix(f, d)},
                 {"layers.*.mlp.up_proj.weight", matrix(f, d)},
                 {"layers.*.mlp.down_proj.weight", matrix(d, f)},
                 {"layers.*.input_layernorm.weight", {d}},
                 {"norm.weight", {d}},
                 {"lm_head.weight", matrix(vocab, d)}},
                4);
}

TEST_CASE("a tree of known names gets the usual specs") {
  const Manifest manifest = ManifestOf(Llama(2048, 2048, 512, 8192, 32000));
  const Mesh mesh = MeshOf({{"fsdp", 8}, {"tp", 4}});
  const auto made = For(manifest, mesh);
  CHECK(made.patterns.proven);
  CHECK(SpecOf(made, "embed_tokens.weight") == "[VOCAB, [FSDP, SP]]");
  CHECK(SpecOf(made, "layers.0.self_attn.q_proj.weight") ==
        "[HEAD, [FSDP, SP]]");
  CHECK(SpecOf(made, "layers.0.self_attn.k_proj.weight") ==
        "[KV_HEAD, [FSDP, SP]]");
  CHECK(SpecOf(made, "layers.3.self_attn.o_proj.weight") ==
        "[[FSDP, SP], HEAD]");
  CHECK(SpecOf(made, "layers.0.mlp.up_proj.weight") ==
        "[MLP_INTERMEDIATE, [FSDP, SP]]");
  CHECK(SpecOf(made, "layers.0.mlp.down_proj.weight") ==
        "[[FSDP, SP], MLP_INTERMEDIATE]");
  CHECK(SpecOf(made, "norm.weight") == "Replicated");
  CHECK(made.Ratio() < 1.01);
}

TEST_CASE("transposed matrices get transposed specs") {
  const Manifest manifest =
      ManifestOf(Llama(2048, 2048, 512, 8192, 32000, true));
  const Mesh mesh = MeshOf({{"fsdp", 8}, {"tp", 4}});
  const auto made = For(manifest, mesh);
  CHECK(SpecOf(made, "layers.0.self_attn.q_proj.weight") ==
        "[[FSDP, SP], HEAD]");
  CHECK(SpecOf(made, "layers.0.self_attn.o_proj.weight") ==
        "[HEAD, [FSDP, SP]]");
  CHECK(SpecOf(made, "layers.0.mlp.down_proj.weight") ==
        "[MLP_INTERMEDIATE, [FSDP, SP]]");
  CHECK(SpecOf(made, "lm_head.weight") == "[[FSDP, SP], VOCAB]");
}

TEST_CASE("`output` is the head outside of layers, by its vocabulary") {
  const auto tree = [](int64_t vocab) {
    return ManifestOf(Layers({{"tok_embeddings.weight", {vocab, 2048}},
                              {"layers.*.attention.wq.weight", {2048, 2048}},
                              {"layers.*.attention.wk.weight", {512, 2048}},
                              {"layers.*.attention.wv.weight", {512, 2048}},
                              {"layers.*.attention.wo.weight", {2048, 2048}},
                              {"layers.*.feed_forward.w1.weight", {8192, 2048}},
                              {"layers.*.feed_forward.w3.weight", {8192, 2048}},
                              {"layers.*.feed_forward.w2.weight", {2048, 8192}},
                              {"norm.weight", {2048}},
                              {"output.weight", {vocab, 2048}}},
                             4));
  };
  const Mesh mesh = MeshOf({{"fsdp", 8}, {"tp", 4}});
  CHECK(SpecOf(For(tree(32000), mesh), "output.weight") ==
        "[VOCAB, [FSDP, SP]]");
  // tp does not divide the vocabulary.
  CHECK(SpecOf(For(tree(32002), mesh), "output.weight") ==
        SpecOf(For(tree(32002), mesh), "tok_embeddings.weight"));
}

TEST_CASE("no shard ends inside a head") {
  // tp of 8 divides neither the 14 heads nor the 2 KV heads, so weights are
  // sharded along the width instead.
  const Manifest manifest = ManifestOf(Llama(896, 896, 128, 4864, 32000));
  const Mesh mesh = MeshOf({{"tp", 8}});
  const auto made = For(manifest, mesh);
  CHECK(SpecOf(made, "layers.0.self_attn.q_proj.weight") ==
        "[null, [FSDP, SP, TP]]");
  CHECK(SpecOf(made, "layers.0.self_attn.o_proj.weight") ==
        "[[FSDP, SP, TP], null]");
  CHECK(SpecOf(made, "layers.0.mlp.up_proj.weight") ==
        "[MLP_INTERMEDIATE, [FSDP, SP]]");
  CHECK(made.choices.heads_unsharded);
}

TEST_CASE("experts") {
  std::vector<NamedShape> tensors = Llama(1024, 1024, 1024, 4096, 32000);
  for (int e = 0; e < 16; ++e) {
    const std::string path = "layers.0.moe.experts." + std::to_string(e);
    tensors.push_back({path + ".w1.weight", {3072, 1024}});
    tensors.push_back({path + ".w2.weight", {1024, 3072}});
  }
  tensors.push_back({"layers.1.moe.experts.w1", {16, 1024, 3072}});
  tensors.push_back({"layers.1.moe.experts.w2", {16, 3072, 1024}});
  const Manifest manifest = ManifestOf(tensors);
  const Mesh mesh = MeshOf({{"fsdp", 8}, {"ep", 8}});
  const auto made = For(manifest, mesh);
  CHECK(SpecOf(made, "layers.0.moe.experts.3.w1.weight") ==
        "[MLP_INTERMEDIATE, [FSDP, SP]]");
  CHECK(SpecOf(made, "layers.1.moe.experts.w1") ==
        "[EXPERT, [FSDP, SP], MLP_INTERMEDIATE]");
  CHECK(SpecOf(made, "layers.1.moe.experts.w2") ==
        "[EXPERT, MLP_INTERMEDIATE, [FSDP, SP]]");
  CHECK(SpecOf(made, "layers.0.self_attn.q_proj.weight") ==
        "[HEAD, [FSDP, EP, SP]]");
  bool placed = false;
  for (const ImportedRule& one : made.file.rules) {
    if (!one.rule.placement) continue;
    placed = true;
    CHECK(one.rule.placement->axis == "ep");
    CHECK(one.rule.placement->count == 16);
  }
  CHECK(placed);
  CHECK(made.choices.axes.Given(AxisRule::kBatch)->axes ==
        AxisGroup{"fsdp", "ep", "dp"});
}

TEST_CASE("experts whose leaves have their numbers are placed") {
  std::vector<NamedShape> tensors = {
      {"embedding.word_embeddings.weight", {32000, 256}},
      {"decoder.layers.*.self_attention.linear_qkv.weight", {768, 256}},
      {"decoder.layers.*.self_attention.linear_proj.weight", {256, 256}},
      {"decoder.layers.*.mlp.router.weight", {8, 256}},
      {"decoder.final_layernorm.weight", {256}}};
  for (int e = 0; e < 8; ++e) {
    const std::string path = "decoder.layers.*.mlp.experts.linear_fc";
    tensors.push_back({path + "1.weight" + std::to_string(e), {1024, 256}});
    tensors.push_back({path + "2.weight" + std::to_string(e), {256, 512}});
  }
  const Manifest manifest = ManifestOf(Layers(tensors, 4));
  const Mesh mesh = MeshOf({{"fsdp", 2}, {"ep", 4}, {"tp", 2}});
  const auto made = For(manifest, mesh);
  CHECK(made.patterns.proven);
  const std::string fc1 = "decoder.layers.0.mlp.experts.linear_fc1.weight5";
  CHECK(SpecOf(made, fc1) == "[MLP_INTERMEDIATE, [FSDP, SP]]");
  const Imported rules = WriteFile(made, mesh);
  const auto placed = std::count_if(
      rules.rules.begin(), rules.rules.end(), [](const auto& one) {
        return one.rule.placement &&
               one.rule.placement->index_pattern == R"((\d+)$)" &&
               one.rule.placement->count == 8;
      });
  CHECK(placed == 2);
}

TEST_CASE("an expert's number is found before a number of its weight") {
  const std::vector<NamedShape> tensors = {
      {"embed.weight", {32000, 256}},
      {"layers.*.attention.wq.weight", {256, 256}},
      {"layers.*.attention.wk.weight", {256, 256}},
      {"layers.*.attention.wv.weight", {256, 256}},
      {"layers.*.attention.wo.weight", {256, 256}},
      {"layers.*.moe.router.weight", {8, 256}}};
  std::vector<NamedShape> all = tensors;
  for (int e = 0; e < 8; ++e) {
    for (int i = 0; i < 4; ++i) {
      all.push_back({"layers.*.moe.experts." + std::to_string(e) + ".up_proj." +
                         std::to_string(i),
                     {512, 256}});
    }
  }
  const Manifest manifest = ManifestOf(Layers(all, 4));
  const Mesh mesh = MeshOf({{"fsdp", 2}, {"ep", 4}, {"tp", 2}});
  const Imported rules = WriteFile(For(manifest, mesh), mesh);
  int placed = 0;
  for (const auto& one : rules.rules) {
    if (!one.rule.placement) continue;
    ++placed;
    CHECK(one.rule.placement->index_pattern == R"(experts\.(\d+)\.)");
    CHECK(one.rule.placement->count == 8);
  }
  CHECK(placed == 1);
}

TEST_CASE("no shard ends inside a quantisation block") {
  const auto tensors = Layers(
      {{"layers.*.mlp.up_proj.weight", {1536, 7168}, Dtype::kF8E4M3},
       {"layers.*.mlp.up_proj.weight_scale_inv", {12, 56}, Dtype::kF32},
       {"layers.*.mlp.down_proj.weight", {7168, 1536}, Dtype::kF8E4M3},
       {"layers.*.mlp.down_proj.weight_scale_inv", {56, 12}, Dtype::kF32},
       {"layers.*.input_layernorm.weight", {7168}}},
      4);
  const Manifest manifest = ManifestOf(tensors);
  // 12 blocks cannot be divided among 8 devices without a shard that ends
  // inside a block; 56 blocks can.
  const Mesh mesh = MeshOf({{"tp", 8}});
  const auto made = For(manifest, mesh);
  CHECK(SpecOf(made, "layers.0.mlp.up_proj.weight") ==
        "[null, [FSDP, SP, TP]]");
  CHECK(SpecOf(made, "layers.0.mlp.up_proj.weight_scale_inv") ==
        "[null, [FSDP, SP, TP]]");
}

TEST_CASE("all projections of a block share a strategy") {
  const Mesh mesh = MeshOf({{"tp", 8}});
  for (const bool of_up : {false, true}) {
    CAPTURE(of_up);
    std::vector<NamedShape> layer = {
        {"layers.*.mlp.up_proj.weight", {1536, 7168}},
        {"layers.*.mlp.down_proj.weight", {7168, 1536}},
        {"layers.*.input_layernorm.weight", {7168}},
        // The embedding is so large that slices of the projections save few
        // bytes in comparison.
        {"embed_tokens.weight", {int64_t{1} << 24, 7168}}};
    layer[of_up ? 0 : 1].dtype = Dtype::kF8E4M3;
    layer.push_back(
        of_up
            ? NamedShape{"layers.*.mlp.up_proj.weight_scale_inv", {12, 56}}
            : NamedShape{"layers.*.mlp.down_proj.weight_scale_inv", {56, 12}});
    const Manifest manifest = ManifestOf(Layers(layer, 4));
    const auto made = For(manifest, mesh);
    CHECK(SpecOf(made, "layers.0.mlp.up_proj.weight") ==
          "[null, [FSDP, SP, TP]]");
    CHECK(SpecOf(made, "layers.0.mlp.down_proj.weight") ==
          "[[FSDP, SP, TP], null]");
  }
}

// Returns the first comment of each suggested rule: what its parameters are,
// why they are sharded as they are, and their shapes.
std::vector<std::string> Comments(const std::vector<NamedShape>& layer) {
  const Manifest manifest = ManifestOf(Layers(layer, 4));
  const Mesh mesh = MeshOf({{"tp", 4}});
  std::vector<std::string> out;
  for (const ImportedRule& one : WriteFile(For(manifest, mesh), mesh).rules) {
    std::string text;
    for (const std::string& line : one.comments) {
      text += (text.empty() ? "" : " ") + line;
    }
    out.push_back(std::move(text));
  }
  return out;
}

// Returns the comments that begin with `title`.
std::vector<std::string> Titled(const std::vector<NamedShape>& layer,
                                const std::string& title) {
  std::vector<std::string> out = Comments(layer);
  std::erase_if(out, [&](const std::string& one) {
    return one.compare(0, title.size(), title) != 0;
  });
  return out;
}

TEST_CASE("the reason for slices of the width is one that was found") {
  // 4 divides 12352, 4096, 8192 and 32.
  const auto mixers = Titled({{"layers.*.mixer.in_proj.weight", {12352, 2048}},
                              {"layers.*.mixer.conv1d.weight", {8192, 1, 4}},
                              {"layers.*.mixer.A_log", {32}},
                              {"layers.*.mixer.dt_bias", {32}},
                              {"layers.*.mixer.out_proj.weight", {2048, 4096}}},
                             "State space mixer");
  REQUIRE(mixers.size() == 1);
  CAPTURE(mixers[0]);
  CHECK(mixers[0].find("does not divide") == std::string::npos);
  CHECK(mixers[0].find("hold several parts") != std::string::npos);
}

TEST_CASE("experts whose gate and up are one matrix are stated to be that") {
  const auto layer = [](const std::string& in, const std::string& out) {
    return std::vector<NamedShape>{
        {"layers.*.mlp.experts." + in, {8, 2048, 2048}},
        {"layers.*.mlp.experts." + out, {8, 1024, 2048}},
        {"layers.*.norm.weight", {2048}},
        {"layers.*.attn.q_proj.weight", {1024, 2048}}};
  };
  CHECK(Titled(layer("gate_up_proj", "down_proj"),
               "Experts, gate and up in one matrix")
            .size() == 1);
  // By sizes alone nothing is stated about what is summed.
  for (const std::string& one : Comments(layer("wi", "wo"))) {
    CAPTURE(one);
    CHECK((one.find("Perhaps experts") == std::string::npos ||
           one.find("summed") == std::string::npos));
  }
}

TEST_CASE("only the weight of a module has the module's role") {
  std::vector<NamedShape> quantised = {
      {"layers.*.self_attn.q_proj.qweight", {256, 2048}},
      {"layers.*.self_attn.q_proj.zorp", {16, 2048}},
      {"layers.*.norm.weight", {2048}}};
  quantised[0].dtype = Dtype::kI32;
  const std::vector<NamedShape> adapted = {
      {"layers.*.self_attn.q_proj.base_layer.weight", {2048, 2048}},
      {"layers.*.self_attn.q_proj.zorp.default.weight", {16, 2048}},
      {"layers.*.self_attn.q_proj.lora_B.default.weight", {2048, 16}},
      {"layers.*.norm.weight", {2048}}};
  for (const auto& layer : {quantised, adapted}) {
    for (const std::string& one : Titled(layer, "Queries")) {
      CAPTURE(one);
      CHECK(one.find("[16, 2048]") == std::string::npos);
    }
  }
}

TEST_CASE("a down projection reads what a projection of its stack computes") {
  const auto down = Titled({{"layer.*.zorp.self.query.weight", {768, 768}},
                            {"layer.*.zorp.self.key.weight", {768, 768}},
                            {"layer.*.zorp.self.value.weight", {768, 768}},
                            {"layer.*.zorp.output.dense.weight", {768, 768}},
                            {"layer.*.intermediate.dense.weight", {3072, 768}},
                            {"layer.*.output.dense.weight", {768, 3072}}},
                           "Feed-forward, out of its width");
  REQUIRE(down.size() == 1);
  CHECK(down[0].find("[768, 768]") == std::string::npos);
}

TEST_CASE("scanned layers and heads that are a dimension are found") {
  const Manifest manifest = ManifestOf(
      {{"decoder/layers/self_attention/query/kernel", {1024, 24, 16, 64}},
       {"decoder/layers/self_attention/key/kernel", {1024, 24, 4, 64}},
       {"decoder/layers/self_attention/value/kernel", {1024, 24, 4, 64}},
       {"decoder/layers/self_attention/out/kernel", {16, 24, 64, 1024}},
       {"decoder/layers/mlp/wi_0/kernel", {1024, 24, 4096}},
       {"decoder/layers/mlp/wi_1/kernel", {1024, 24, 4096}},
       {"decoder/layers/mlp/wo/kernel", {4096, 24, 1024}},
       {"decoder/layers/pre_self_attention_norm/scale", {1024, 24}},
       {"token_embedder/embedding", {32000, 1024}},
       {"decoder/logits_dense/kernel", {1024, 32000}}},
      '/');
  const Mesh mesh = MeshOf({{"fsdp", 8}, {"tp", 4}});
  const auto made = For(manifest, mesh);
  CHECK(SpecOf(made, "decoder/layers/self_attention/query/kernel") ==
        "[[FSDP, SP], null, HEAD, null]");
  CHECK(SpecOf(made, "decoder/layers/self_attention/key/kernel") ==
        "[[FSDP, SP], null, KV_HEAD, null]");
  CHECK(SpecOf(made, "decoder/layers/self_attention/out/kernel") ==
        "[HEAD, null, null, [FSDP, SP]]");
  CHECK(SpecOf(made, "decoder/layers/mlp/wi_0/kernel") ==
        "[[FSDP, SP], null, MLP_INTERMEDIATE]");
  CHECK(SpecOf(made, "decoder/layers/mlp/wo/kernel") ==
        "[MLP_INTERMEDIATE, null, [FSDP, SP]]");
  CHECK(SpecOf(made, "token_embedder/embedding") == "[VOCAB, [FSDP, SP]]");
}

TEST_CASE("norms over all heads are split with the heads") {
  std::vector<NamedShape> tensors = Llama(2048, 2048, 512, 8192, 32000);
  tensors.push_back({"layers.0.self_attn.q_norm.weight", {2048}});
  tensors.push_back({"layers.0.self_attn.k_norm.weight", {512}});
  tensors.push_back({"layers.1.self_attn.sinks", {32}});
  const Mesh mesh = MeshOf({{"fsdp", 8}, {"tp", 4}});
  ModelConfig model;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 64;
  const Manifest all = ManifestOf(tensors);
  const auto made = For(all, mesh, &model);
  CHECK(SpecOf(made, "layers.0.self_attn.q_norm.weight") == "[HEAD]");
  CHECK(SpecOf(made, "layers.0.self_attn.k_norm.weight") == "[KV_HEAD]");
  CHECK(SpecOf(made, "layers.1.self_attn.sinks") == "[HEAD]");
  // With one KV head, the norm of the keys has the length of one head, and is
  // therefore replicated.
  tensors = Llama(2048, 2048, 64, 8192, 32000);
  tensors.push_back({"layers.0.self_attn.q_norm.weight", {64}});
  tensors.push_back({"layers.0.self_attn.k_norm.weight", {64}});
  const Manifest one = ManifestOf(tensors);
  CHECK(SpecOf(For(one, mesh), "layers.0.self_attn.k_norm.weight") ==
        "Replicated");
}

TEST_CASE("a configuration is used only if it fits the shapes") {
  const Manifest manifest = ManifestOf(Llama(2048, 2048, 2048, 8192, 32000));
  const Mesh mesh = MeshOf({{"tp", 16}});
  ModelConfig model;
  model.heads = 8;
  model.kv_heads = 8;
  model.hidden = 2048;
  model.head_dim = 256;
  CHECK(SpecOf(For(manifest, mesh), "layers.0.self_attn.q_proj.weight") ==
        "[HEAD, [FSDP, SP]]");
  CHECK(SpecOf(For(manifest, mesh, &model),
               "layers.0.self_attn.q_proj.weight") == "[null, [FSDP, SP, TP]]");
  model.heads = 7;
  model.head_dim = 100;
  CHECK(SpecOf(For(manifest, mesh, &model),
               "layers.0.self_attn.q_proj.weight") == "[HEAD, [FSDP, SP]]");
}

TEST_CASE("a head size that is assumed in spite of a configuration is stated") {
  const Manifest manifest = ManifestOf(Llama(2048, 2048, 2048, 8192, 32000));
  const Mesh mesh = MeshOf({{"tp", 16}});
  const auto states = [&](const ModelConfig* model, const std::string& text) {
    std::string head;
    for (const std::string& line : For(manifest, mesh, model).file.comments) {
      head += line + " ";
    }
    return head.find(text) != std::string::npos;
  };
  ModelConfig model;
  model.heads = 7;
  CHECK(states(nullptr, "give the model's config.json"));
  CHECK(!states(&model, "give the model's config.json"));
  CHECK(states(&model, "where the model's config.json does not state it"));
}

TEST_CASE("axes of other names") {
  const Manifest manifest = ManifestOf(Llama(2048, 2048, 512, 8192, 32000));
  const Mesh mesh = MeshOf({{"data", 8}, {"model", 4}});
  const auto made = For(manifest, mesh);
  CHECK(made.choices.axes.Given(AxisRule::kTensorParallel)->axes ==
        AxisGroup{"model"});
  CHECK(made.choices.axes.Given(AxisRule::kFullyShardedDataParallel)->axes ==
        AxisGroup{"data"});
  CHECK(made.misfit.empty());
  const Mesh strange = MeshOf({{"fsdp", 8}, {"zeppelin", 4}});
  CHECK(For(manifest, strange).misfit.find("zeppelin") != std::string::npos);
}

TEST_CASE("no mesh suits a model of more than 4,096 groups") {
  std::vector<NamedShape> tensors;
  for (int i = 0; i < 4096; ++i) {
    std::string name = "block_";
    for (int at = 0, left = i; at < 3; ++at, left /= 16) {
      name += static_cast<char>('a' + left % 16);
    }
    tensors.push_back({name + ".weight", {1024, 4096}});
  }
  CHECK(!HasTooManyGroups(ParameterGroupsOf(ManifestOf(tensors))));
  tensors.push_back({"head.weight", {1024, 4096}});
  const Manifest manifest = ManifestOf(tensors);
  CHECK(HasTooManyGroups(ParameterGroupsOf(manifest)));
  for (const int64_t tp : {1, 4}) {
    const auto made = For(manifest, MeshOf({{"fsdp", 8}, {"tp", tp}}));
    CHECK(made.misfit ==
          "the names have no layer numbers: 4,097 parameters would need one "
          "pattern each");
    CHECK(made.file.rules.empty());
  }
}

TEST_CASE(
    "a vocabulary that tp does not divide is stored in slices, or replicated "
    "to save traffic") {
  const Manifest manifest = ManifestOf(Llama(2048, 2048, 512, 8192, 32003));
  const Mesh mesh = MeshOf({{"fsdp", 8}, {"tp", 4}});
  CHECK(SpecOf(For(manifest, mesh), "embed_tokens.weight") ==
        "[null, [FSDP, SP, TP]]");
  CHECK(SpecOf(For(manifest, mesh, nullptr, {.prefer_traffic = true}),
               "embed_tokens.weight") == "[null, [FSDP, SP]]");
}

}  // namespace
}  // namespace shardc::suggest
