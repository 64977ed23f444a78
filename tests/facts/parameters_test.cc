#include "facts/parameters.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "model/manifest.h"

namespace shardc::facts {
namespace {

struct Stored {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::kBF16;
};

// The table of two layers with these parameters, and of those without `*`.
class Tree {
 public:
  explicit Tree(const std::vector<Stored>& stored, char separator = '.') {
    ManifestBuilder builder;
    for (const Stored& one : stored) {
      const size_t at = one.name.find('*');
      for (const char layer : {'0', '1'}) {
        std::string name = one.name;
        if (at != name.npos) name[at] = layer;
        builder.Add(name, {one.shape, one.dtype});
        if (at == name.npos) break;
      }
    }
    manifest_ = builder.Take();
    table_ = FindParameters({.tensors = manifest_.tensors,
                             .types = manifest_.types,
                             .separator = separator});
  }

  const Group& Of(std::string_view name) const {
    for (const Group& group : table_.groups) {
      if (group.name == name) return group;
    }
    FAIL("no group has this name: ", name);
    return table_.groups.front();
  }
  // The role of which a lint is certain.
  Role Certain(std::string_view name) const {
    return Of(name).RoleBy(Evidence::kShapes).module_role;
  }
  const ParameterTable& table() const { return table_; }

 private:
  Manifest manifest_;
  ParameterTable table_;
};

TEST_CASE("facts: a likely word needs shapes that agree") {
  const Tree tree({{"h.*.attn.to_q.weight", {1024, 1024}},
                   {"h.*.attn.to_k.weight", {256, 1024}},
                   {"h.*.attn.to_v.weight", {256, 1024}},
                   {"h.*.attn.to_v.bias", {256}},
                   {"h.*.attn.to_out.weight", {1024, 1024}},
                   {"h.*.mlp.linear1.weight", {4096, 1024}},
                   {"h.*.mlp.linear2.weight", {1024, 4096}}});
  CHECK(tree.Certain("h.*.attn.to_q.weight") == Role::kQuery);
  CHECK(tree.Certain("h.*.attn.to_k.weight") == Role::kKey);
  CHECK(tree.Certain("h.*.attn.to_v.weight") == Role::kValue);
  CHECK(tree.Certain("h.*.attn.to_v.bias") == Role::kValue);
  CHECK(tree.Certain("h.*.attn.to_out.weight") == Role::kOutput);
  CHECK(tree.Certain("h.*.mlp.linear1.weight") == Role::kUp);
  CHECK(tree.Certain("h.*.mlp.linear2.weight") == Role::kDown);
  for (const Group& group : tree.table().groups) {
    CHECK(group.evidence == Evidence::kShapes);
    CHECK(group.RoleBy(Evidence::kSureWord).module_role == Role::kOther);
    CHECK(group.count == 2);
  }
}

TEST_CASE("facts: shapes that disagree leave a likely word uncertain") {
  // Keys of two shapes; a second matrix that does not read what the first
  // computes; and a query without an output projection.
  const Tree tree({{"h.*.attn.to_q.weight", {1024, 1024}},
                   {"h.*.attn.to_k.weight", {256, 1024}},
                   {"h.*.attn.to_v.weight", {512, 1024}},
                   {"h.*.attn.to_out.weight", {1024, 1024}},
                   {"h.*.mlp.linear1.weight", {21504, 3072}},
                   {"h.*.mlp.linear2.weight", {3072, 15360}},
                   {"h.*.cross.to_q.weight", {512, 1024}}});
  CHECK(tree.Certain("h.*.attn.to_q.weight") == Role::kQuery);
  for (const std::string_view name :
       {"h.*.attn.to_k.weight", "h.*.attn.to_v.weight",
        "h.*.mlp.linear1.weight", "h.*.mlp.linear2.weight",
        "h.*.cross.to_q.weight"}) {
    CHECK(tree.Certain(name) == Role::kOther);
    CHECK(tree.Of(name).evidence == Evidence::kLikelyWord);
    CHECK(tree.Of(name).role().module_role != Role::kOther);
  }
}

TEST_CASE("facts: shapes confirm parts, experts and packed numbers") {
  const Tree fused({{"h.*.attn.to_qkv.weight", {1536, 1024}},
                    {"h.*.attn.to_out.weight", {1024, 1024}},
                    {"h.*.mlp.up_gate_proj.weight", {8192, 1024}},
                    {"h.*.mlp.linear2.weight", {1024, 4096}}});
  CHECK(fused.Certain("h.*.attn.to_qkv.weight") == Role::kFusedQkv);
  CHECK(fused.Certain("h.*.attn.to_out.weight") == Role::kOutput);
  CHECK(fused.Certain("h.*.mlp.up_gate_proj.weight") == Role::kFusedGateUp);
  const Tree experts({{"blk.*.ffn_gate_inp.weight", {8, 512}},
                      {"blk.*.ffn_gate_exps.weight", {8, 1408, 512}},
                      {"blk.*.ffn_up_exps.weight", {8, 1408, 512}},
                      {"blk.*.ffn_down_exps.weight", {8, 512, 1408}}});
  CHECK(experts.Certain("blk.*.ffn_gate_inp.weight") == Role::kRouter);
  CHECK(experts.Certain("blk.*.ffn_gate_exps.weight") == Role::kGate);
  CHECK(experts.Certain("blk.*.ffn_down_exps.weight") == Role::kDown);
  CHECK(
      experts.Of("blk.*.ffn_up_exps.weight").RoleBy(Evidence::kShapes).expert);
  const Tree packed({{"h.*.to_q.qweight", {128, 1024}, Dtype::kI32},
                     {"h.*.to_out.qweight", {128, 1024}, Dtype::kI32}});
  CHECK(packed.Certain("h.*.to_q.qweight") == Role::kQuery);
  // The stored sizes of numbers that hold one weight are those of the weight.
  const Tree whole(
      {{"h.*.to_q.weight", {128, 1024}}, {"h.*.to_out.weight", {1024, 1024}}});
  CHECK(whole.Certain("h.*.to_q.weight") == Role::kOther);
}

TEST_CASE("facts: tables of the vocabulary by their words and shapes") {
  const Tree tree({{"token_embd.weight", {32000, 1024}},
                   {"output.weight", {32000, 1024}},
                   {"h.*.attn.to_q.weight", {1024, 1024}},
                   {"h.*.attn.output.weight", {1024, 1024}},
                   {"h.*.mlp.linear1.weight", {4096, 1024}},
                   {"h.*.mlp.output.weight", {1024, 4096}},
                   {"embed.weight", {4096, 1024}}});
  CHECK(tree.Certain("token_embd.weight") == Role::kEmbedding);
  CHECK(tree.Certain("output.weight") == Role::kHead);
  CHECK(tree.Certain("h.*.attn.output.weight") == Role::kOutput);
  CHECK(tree.Certain("h.*.mlp.output.weight") == Role::kDown);
  // The other side is the inner size of the layers.
  CHECK(tree.Certain("embed.weight") == Role::kOther);
}

TEST_CASE("facts: an up projection after gate and up in one is a down one") {
  const Tree tree({{"h.*.mlp.w12.weight", {8192, 1024}},
                   {"h.*.mlp.w3.weight", {1024, 4096}},
                   {"g.*.mlp.w1.weight", {4096, 1024}},
                   {"g.*.mlp.w2.weight", {1024, 4096}},
                   {"g.*.mlp.w3.weight", {4096, 1024}}});
  CHECK(tree.Certain("h.*.mlp.w3.weight") == Role::kDown);
  CHECK(tree.Certain("g.*.mlp.w3.weight") == Role::kUp);
  CHECK(tree.Certain("g.*.mlp.w2.weight") == Role::kDown);
}

TEST_CASE("facts: sizes orient matrices") {
  const Tree tree({{"h.*.attn.to_q.weight", {1024, 2048}},
                   {"h.*.attn.to_out.weight", {2048, 1024}},
                   {"h.*.norm.weight", {1024}}});
  CHECK(tree.Of("h.*.attn.to_q.weight").role().in_first == true);
  CHECK(tree.Of("h.*.attn.to_out.weight").role().in_first == true);
}

TEST_CASE("facts: sizes orient no matrix that is alone in its layers") {
  const Tree alone({{"h.*.k_proj.weight", {16, 64}}});
  CHECK(alone.Of("h.*.k_proj.weight").role().in_first == false);
  // An embedding is outside of layers.
  const Tree tables({{"embed_tokens.weight", {64, 32}},
                     {"h.*.q_proj.weight", {32, 32}},
                     {"h.*.norm.weight", {32}}});
  CHECK(tables.Of("embed_tokens.weight").role().in_first == true);
}

TEST_CASE("facts: a section takes precedence over names") {
  ManifestBuilder builder;
  builder.Add("h.0.q_proj.weight", {Shape{1024, 1024}, Dtype::kBF16});
  builder.Add("h.1.q_proj.weight", {Shape{1024, 1024}, Dtype::kBF16});
  builder.Add("h.2.q_proj.weight", {Shape{1024, 1024}, Dtype::kBF16});
  const Manifest manifest = builder.Take();
  const std::vector<step::RoleUse> uses = {
      {.role = Role::kUp, .module_role = Role::kUp, .in = 2, .out = 1},
      {.role = Role::kUp, .module_role = Role::kUp, .in = 2, .out = 1},
      {.skipped = true}};
  const ParameterTable table = FindParameters({.tensors = manifest.tensors,
                                               .types = manifest.types,
                                               .separator = '.',
                                               .config = nullptr,
                                               .uses = uses});
  REQUIRE(table.groups.size() == 2);
  CHECK(table.Of(1).evidence == Evidence::kSection);
  CHECK(table.Of(1).count == 2);
  CHECK(table.Of(1).RoleBy(Evidence::kSureWord).module_role == Role::kUp);
  CHECK(table.Of(1).role().in_first == true);
  CHECK(table.Of(2).skipped);
  CHECK(table.Of(2).role().module_role == Role::kQuery);
}

TEST_CASE("facts: the role of a parameter outside of layers decides its end") {
  const struct {
    std::string_view name;
    bool before, after;
  } kNames[] = {
      {"model.embed_tokens.weight", true, false},
      {"gpt_neox.embed_in.weight", true, false},
      {"transformer.wpe.weight", true, false},
      {"token_type_embeddings.weight", true, false},
      {"word_embeddings_layernorm.weight", true, true},
      {"embed_out.weight", false, true},
      {"unembed.weight", false, true},
      {"lm_head.weight", false, true},
      {"output.weight", false, true},
      {"classification_head.dense.weight", false, true},
      {"model.norm.weight", false, true},
      // No word of these names shows what the parameter does.
      {"unembedding.weight", false, false},
      {"head_table.weight", false, false},
      {"pooler.output.dense.weight", false, false},
  };
  for (const auto& [whole, first, last] : kNames) {
    const std::string_view name = whole;
    const bool before = first, after = last;
    CAPTURE(name);
    const Tree tree({{std::string(name), {4096, 1024}}});
    const ParameterRole& role = tree.Of(name).role();
    CHECK(IsBeforeLayers(role, name) == before);
    CHECK(IsAfterLayers(role, name) == after);
  }
}

}  // namespace
}  // namespace shardc::facts
