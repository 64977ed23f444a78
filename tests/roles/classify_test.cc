#include "roles/classify.h"

#include <iterator>

#include "doctest/doctest.h"

namespace shardc {
namespace {

struct SureCase {
  const char* name;
  char separator;
  Role role;
  int out;  // of rank 2
};

TEST_CASE("sure words give the role of a module and its output dimension") {
  const SureCase cases[] = {
      {"model/layers/*/self_attn/q_proj/kernel", '/', Role::kQuery, 1},
      {"model.layers.*.self_attn.q_proj.weight", '.', Role::kQuery, 0},
      {"h/*/attention/dense/kernel", '/', Role::kOutput, 1},
      {"h/*/mlp/dense_h_to_4h/kernel", '/', Role::kUp, 1},
      {"encoder/block/*/layer/*/SelfAttention/o/kernel", '/', Role::kOutput, 1},
      {"h.*.attn.c_attn.weight", '.', Role::kFusedQkv, 1},
      {"h.*.attn.c_proj.weight", '.', Role::kOutput, 1},
      {"h.*.mlp.c_proj.weight", '.', Role::kDown, 1},
      {"layers/*/mlp/experts/*/w1/kernel", '/', Role::kGate, 1},
      {"layers/*/mlp/gate/kernel", '/', Role::kRouter, 1},
      {"layers/*/self_attn/q_norm/kernel", '/', Role::kNorm, 1},
      {"embed_tokens/embedding", '/', Role::kEmbedding, -1},
      {"lm_head.weight", '.', Role::kHead, 0},
      {"score/kernel", '/', Role::kOther, 1},
  };
  for (const SureCase& one : cases) {
    CAPTURE(one.name);
    const ParameterRole role = Classify(one.name, one.separator);
    CHECK(role.module_role == one.role);
    CHECK(role.confidence ==
          (one.role == Role::kOther ? Confidence::kNone : Confidence::kSure));
    CHECK(OutDim(role, 2) == one.out);
  }
}

TEST_CASE("the output and the input dimension are counted from the last one") {
  const struct {
    const char* name;
    char separator;
    int out[4], in[4];  // of ranks 1 to 4
  } cases[] = {
      {"l.*.self_attn.q_proj.weight", '.', {-1, 0, 1, 2}, {-1, 1, 2, 3}},
      {"l/*/self_attn/q_proj/kernel", '/', {-1, 1, 2, 3}, {-1, 0, 1, 2}},
      {"l.*.self_attn.q_proj.bias", '.', {0, 1, 2, 3}, {-1, -1, -1, -1}},
      {"l/*/mlp/up_proj/bias", '/', {0, 1, 2, 3}, {-1, -1, -1, -1}},
      {"embed_tokens/embedding", '/', {-1, -1, -1, -1}, {-1, -1, -1, -1}},
  };
  for (const auto& one : cases) {
    for (int rank = 1; rank <= 4; ++rank) {
      CAPTURE(one.name);
      CAPTURE(rank);
      const ParameterRole role =
          Classify(one.name, one.separator, Confidence::kSure, rank);
      CHECK(OutDim(role, rank) == one.out[rank - 1]);
      CHECK(InDim(role, rank) == one.in[rank - 1]);
    }
  }
}

struct NamedCase {
  const char* name;
  int rank;
  Role role;
  Role module_role;
  Confidence confidence;
};

// Names of real trees, in the spelling of their frameworks.
TEST_CASE("names of real trees have these roles") {
  constexpr auto kSure = Confidence::kSure;
  constexpr auto kLikely = Confidence::kLikely;
  constexpr auto kNone = Confidence::kNone;
  const NamedCase cases[] = {
      // Hugging Face
      {"model.embed_tokens.weight", 2, Role::kEmbedding, Role::kEmbedding,
       kSure},
      {"model.layers.*.self_attn.k_proj.bias", 1, Role::kBias, Role::kKey,
       kSure},
      {"model.layers.*.self_attn.q_norm.weight", 1, Role::kQueryNorm,
       Role::kNorm, kSure},
      {"model.layers.*.self_attn.sinks", 1, Role::kSink, Role::kOther, kNone},
      {"model.layers.*.self_attn.kv_a_proj_with_mqa.weight", 2,
       Role::kLatentDown, Role::kLatentDown, kSure},
      {"model.layers.*.self_attn.kv_a_layernorm.weight", 1, Role::kLatentNorm,
       Role::kNorm, kSure},
      {"model.layers.*.self_attn.kv_b_proj.weight", 2, Role::kLatentUp,
       Role::kLatentUp, kSure},
      {"model.layers.*.self_attn.indexer.wk.weight", 2, Role::kLatentDown,
       Role::kLatentDown, kSure},
      {"model.layers.*.self_attn.indexer.wq_b.weight", 2, Role::kLatentUp,
       Role::kLatentUp, kSure},
      {"model.layers.*.self_attn.q_b_proj.weight_scale_inv", 2, Role::kScale,
       Role::kLatentUp, kSure},
      {"model.layers.*.mlp.shared_expert_gate.weight", 2, Role::kRouter,
       Role::kRouter, kSure},
      {"model.layers.*.mlp.experts.gate_up_proj_bias", 2, Role::kBias,
       Role::kFusedGateUp, kLikely},
      {"model.layers.*.mlp.experts.down_proj_blocks", 4, Role::kDown,
       Role::kDown, kLikely},
      {"transformer.wpe.weight", 2, Role::kPosition, Role::kOther, kNone},
      {"shared.weight", 2, Role::kEmbedding, Role::kEmbedding, kLikely},
      {"encoder.block.*.layer.*.SelfAttention.relative_attention_bias.weight",
       2, Role::kPosition, Role::kOther, kNone},
      {"bert.encoder.layer.*.intermediate.dense.weight", 2, Role::kUp,
       Role::kUp, kLikely},
      {"bert.encoder.layer.*.attention.output.dense.weight", 2, Role::kOutput,
       Role::kOutput, kSure},
      {"bert.encoder.layer.*.attention.output.LayerNorm.weight", 1, Role::kNorm,
       Role::kNorm, kSure},
      {"bert.encoder.layer.*.output.LayerNorm.bias", 1, Role::kBias,
       Role::kNorm, kSure},
      {"cls.predictions.transform.LayerNorm.weight", 1, Role::kNorm,
       Role::kNorm, kSure},
      {"distilbert.transformer.layer.*.attention.q_lin.weight", 2, Role::kQuery,
       Role::kQuery, kLikely},
      {"base_model.model.model.layers.*.self_attn.q_proj.lora_A.weight", 2,
       Role::kAdapterDown, Role::kQuery, kSure},
      {"base_model.model.model.layers.*.mlp.up_proj.lora_B.weight", 2,
       Role::kAdapterUp, Role::kUp, kSure},
      // GGUF
      {"blk.*.attn_q.weight", 2, Role::kQuery, Role::kQuery, kSure},
      {"blk.*.ffn_gate_exps.weight", 3, Role::kGate, Role::kGate, kLikely},
      {"output.weight", 2, Role::kDown, Role::kDown, kLikely},
      // torch.nn.MultiheadAttention
      {"encoder.layers.*.self_attn.in_proj_weight", 2, Role::kFusedQkv,
       Role::kFusedQkv, kLikely},
      // Mamba
      {"layers.*.mixer.in_proj.weight", 2, Role::kStateSpace, Role::kOther,
       kNone},
      {"layers.*.mixer.A_log", 1, Role::kStateSpace, Role::kOther, kNone},
      // Vectors and matrices without a known word
      {"model.layers.*.scalar", 1, Role::kVector, Role::kOther, kNone},
      {"model.layers.*.matrix", 2, Role::kOther, Role::kOther, kNone},
      {"model.layers.*.matrix", -1, Role::kOther, Role::kOther, kNone},
  };
  for (const NamedCase& one : cases) {
    CAPTURE(one.name);
    const ParameterRole role =
        Classify(one.name, '.', Confidence::kLikely, one.rank);
    CHECK(role.role == one.role);
    CHECK(role.module_role == one.module_role);
    CHECK(role.confidence == one.confidence);
  }
}

TEST_CASE("words that are only likely are ignored by default") {
  CHECK(Classify("blk.*.to_q.weight", '.').module_role == Role::kOther);
  CHECK(Classify("experts.gate_up_proj_bias", '.').leaf == Leaf::kOther);
  // A sure word takes precedence over a likely one that is nearer to the leaf.
  CHECK(Classify("attn.q_proj.proj.weight", '.', Confidence::kLikely)
            .module_role == Role::kQuery);
}

TEST_CASE("paths name siblings, the module and the block") {
  const ParameterRole up = Classify("mlp/up_proj/kernel", '/');
  CHECK(up.sibling_path == "mlp/?/kernel");
  CHECK(up.module_path == "mlp/up_proj");
  CHECK(up.block_path == "mlp");
  CHECK(Classify("mlp/up_proj/bias", '/').module_path == up.module_path);
  CHECK(Classify("attention/attention/query/kernel", '/').block_path ==
        Classify("attention/output/dense/kernel", '/').block_path);
}

TEST_CASE("experts are stacked, counted or shared") {
  CHECK(Classify("mlp/experts/up_proj/kernel", '/').expert);
  CHECK_FALSE(Classify("mlp/experts/up_proj/kernel", '/').counted_expert);
  CHECK(Classify("mlp/experts/*/up_proj/kernel", '/').counted_expert);
  for (const char* const name :
       {"mlp.experts.linear_fc2.weight5", "mlp.experts.linear_fc2.weight*"}) {
    const ParameterRole role = Classify(name, '.', Confidence::kLikely);
    CHECK(role.counted_expert);
    CHECK(role.leaf == Leaf::kWeight);
    CHECK(role.module_role == Role::kDown);
    CHECK(role.module_path == "mlp.experts.linear_fc2");
  }
  CHECK_FALSE(Classify("mlp.experts.weight1", '.').counted_expert);
  CHECK(Classify("mlp/shared_expert/up_proj/kernel", '/').shared_expert);
  CHECK_FALSE(Classify("mlp/shared_expert/up_proj/kernel", '/').expert);
}

struct SizedCase {
  Role by_name;
  MatrixSizes sizes;
  Role refined;
};

TEST_CASE("sizes correct the role that a name gives") {
  const SizedCase cases[] = {
      // A router has few outputs; a larger gate of that name is a projection.
      {Role::kRouter, {.first = 8, .last = 4096, .width = 4096}, Role::kRouter},
      {Role::kRouter, {.first = 14336, .last = 4096, .width = 4096}, Role::kUp},
      {Role::kRouter, {.first = 2000, .last = 9000}, Role::kOther},
      // A vocabulary is never as large as the width.
      {Role::kEmbedding,
       {.first = 4096, .last = 4096, .width = 4096},
       Role::kOther},
      {Role::kOther,
       {.first = 32000, .last = 4096, .width = 4096, .vocabulary = true},
       Role::kEmbedding},
      {Role::kOther,
       {.first = 11008, .last = 4096, .width = 4096, .in_layers = true},
       Role::kProjection},
      {Role::kOther,
       {.first = 11008, .last = 4096, .width = 4096},
       Role::kOther},
      {Role::kQuery,
       {.first = 32000, .last = 4096, .width = 4096, .vocabulary = true},
       Role::kQuery},
      // A square is no table; other roles may be square.
      {Role::kHead, {.first = 64, .last = 64, .width = 64}, Role::kOther},
      {Role::kQuery, {.first = 64, .last = 64, .width = 64}, Role::kQuery},
      {Role::kOther,
       {.first = 64, .last = 64, .width = 64, .in_layers = true},
       Role::kOther},
      {Role::kEmbedding,
       {.first = 65, .last = 64, .width = 64},
       Role::kEmbedding},
      // A side that is no width of the model determines no role.
      {Role::kOther,
       {.first = 65, .last = 64, .vocabulary = true},
       Role::kOther},
      // The most outputs of a router, and the least ratio of its sides.
      {Role::kRouter,
       {.first = 1024, .last = 8192, .width = 8192},
       Role::kRouter},
      {Role::kRouter, {.first = 1025, .last = 8192, .width = 8192}, Role::kUp},
      {Role::kRouter, {.first = 16, .last = 64, .width = 64}, Role::kRouter},
      {Role::kRouter, {.first = 64, .last = 16, .width = 64}, Role::kRouter},
      {Role::kRouter, {.first = 17, .last = 64, .width = 64}, Role::kUp},
      {Role::kRouter,
       {.first = 17, .last = 64, .in_layers = true},
       Role::kOther},
  };
  for (const SizedCase& one : cases) {
    CAPTURE(&one - std::begin(cases));
    CHECK(RefineBySizes(one.by_name, one.sizes) == one.refined);
  }
}

TEST_CASE("words of published models, alone and joined") {
  for (const std::string_view word :
       {"self_attn", "q_proj", "Block_0", "layers_11", "CausalSelfAttention_0",
        "attention_block", "MLPBlock", "ffns", "weight_scale_inv", "g_idx",
        "lora_A", "gate_up_proj_blocks", "conv1d", "*", "12"}) {
    CAPTURE(word);
    CHECK(IsPublishedWord(word));
  }
  for (const std::string_view word :
       {"unlex", "kuderam", "verses", "self_drosk", "drosk_proj",
        "drosk_scales", "DroskBlock_0"}) {
    CAPTURE(word);
    CHECK_FALSE(IsPublishedWord(word));
  }
}

}  // namespace
}  // namespace shardc
