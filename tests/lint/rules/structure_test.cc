// Structure that names alone do not show: scales along the inputs of a weight,
// reordered inputs, parameters with a number for each head, towers next to the
// language model, and second stacks of experts. Each kind has trees of several
// formats or under other names that are reported, and correct trees that are
// not.
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

// A target in short: a rule is a pattern and a spec, a parameter is a name, a
// shape and a dtype. `*` in a name stands for the layers 0 and 1.
struct Tree {
  std::string_view title;
  std::string_view mesh;
  std::vector<std::pair<std::string, std::string>> rules;
  std::vector<std::string> params;
  std::string_view model = {};
  // The groups of parameters that the findings of the lint are about, in the
  // order of the findings, separated by spaces.
  std::string expected = {};
};

std::string ManifestOf(const Tree& tree) {
  std::string out = R"({"schema": "shardc.manifest/v1", "separator": ".",)"
                    R"( "params": {)";
  std::string comma;
  for (const std::string& param : tree.params) {
    std::istringstream words(param);
    std::string name, dtype, size, shape;
    words >> name >> dtype;
    while (words >> size) shape += (shape.empty() ? "" : ", ") + size;
    const size_t star = name.find('*');
    for (const std::string layer : {"0", "1"}) {
      std::string one = name;
      if (star != std::string::npos) one.replace(star, 1, layer);
      if (star == std::string::npos && layer == "1") continue;
      out += comma + "\"" + one + "\": {\"shape\": [" + shape +
             "], \"dtype\": \"" + dtype + "\"}";
      comma = ", ";
    }
  }
  return out + "}}";
}

// Returns the templates of the parameters that the lint's findings are about.
std::string GroupsFound(const Tree& tree, std::string_view lint) {
  std::string rules =
      "version: 1\nseparator: '.'\npolicy: {unmatched: replicate}\nrules:\n";
  for (const auto& [match, spec] : tree.rules) {
    rules += "  - {match: '" + match + "', spec: " + spec + "}\n";
  }
  const std::string manifest = ManifestOf(tree);
  std::string errors, out;
  const LintResult result = LintExampleText({.mesh = tree.mesh,
                                             .rules = rules,
                                             .manifest = manifest,
                                             .model = tree.model},
                                            &errors);
  if (!errors.empty()) return errors;
  for (const Finding& finding : result.findings) {
    if (finding.code->name != lint) continue;
    // Groups are quoted in the subject, which ends at the verb.
    std::string_view text = finding.message;
    for (const std::string_view verb :
         {" holds ", " hold ", " is split ", " is replicated", " counts "}) {
      text = text.substr(0, text.find(verb));
    }
    while (true) {
      const size_t begin = text.find('`');
      if (begin == text.npos) break;
      const size_t end = text.find('`', begin + 1);
      out += (out.empty() ? "" : " ") +
             std::string(text.substr(begin + 1, end - begin - 1));
      text.remove_prefix(end + 1);
    }
  }
  return out;
}

void CheckTrees(std::string_view lint, const std::vector<Tree>& trees) {
  for (const Tree& tree : trees) {
    CAPTURE(lint);
    CAPTURE(tree.title);
    CHECK(GroupsFound(tree, lint) == tree.expected);
  }
}

TEST_CASE("a scale that is replicated along the split inputs is reported") {
  const std::string down = "layers.*.mlp.down_proj.";
  CheckTrees("companion-differs",
             {
                 {"blocks of float8",
                  "tp:4",
                  {{"down_proj.weight$", "[null, tp]"}},
                  {down + "weight F8_E4M3 4096 8192",
                   down + "weight_scale_inv F32 32 64"},
                  {},
                  down + "weight_scale_inv"},
                 {"MXFP8 of names without roles",
                  "tp:2",
                  {{"ff.out.weight$", "[null, tp]"}},
                  {"pile.*.ff.out.weight F8_E4M3 512 2048",
                   "pile.*.ff.out.weight_scale U8 512 64"},
                  {},
                  "pile.*.ff.out.weight_scale"},
                 {"NVFP4",
                  "tp:2",
                  {{"down_proj.weight$", "[null, tp]"}},
                  {down + "weight U8 4096 4096",
                   down + "weight_scale F8_E4M3 4096 512",
                   down + "weight_scale_2 F32 1"},
                  {},
                  down + "weight_scale"},
                 {"compressed-tensors",
                  "tp:8",
                  {{"down_proj.weight_packed$", "[null, tp]"}},
                  {down + "weight_packed I32 2048 1024",
                   down + "weight_scale BF16 2048 64",
                   down + "weight_zero_point I32 256 64"},
                  {},
                  down + "weight_scale " + down + "weight_zero_point"},
                 {"MLX",
                  "tp:2",
                  {{"down_proj.weight$", "[null, tp]"}},
                  {down + "weight U32 2048 1024", down + "scales BF16 2048 128",
                   down + "biases BF16 2048 128"},
                  {},
                  down + "scales " + down + "biases"},
                 {"GPTQ with consecutive inputs",
                  "tp:2",
                  {{"down_proj.qweight$", "[tp, null]"}},
                  {down + "qweight I32 1024 2048", down + "qzeros I32 64 256",
                   down + "scales F16 64 2048", down + "g_idx I32 8192"},
                  R"({"quantization_config": {"quant_method": "gptq", "bits": 4,
               "group_size": 128, "desc_act": false}})",
                  down + "qzeros " + down + "scales"},
                 {"AWQ",
                  "tp:2",
                  {{"down_proj.qweight$", "[tp, null]"}},
                  {down + "qweight I32 8192 256", down + "qzeros I32 64 256",
                   down + "scales F16 64 2048"},
                  {},
                  down + "qzeros " + down + "scales"},
                 {"blocks of mxfp4 in experts",
                  "tp:2",
                  {{"down_proj_blocks$", "[null, null, tp, null]"}},
                  {"layers.*.mlp.experts.down_proj_blocks U8 32 2880 90 16",
                   "layers.*.mlp.experts.down_proj_scales U8 32 2880 90"},
                  {},
                  "layers.*.mlp.experts.down_proj_scales"},
                 {"experts of compressed-tensors",
                  "ep:4",
                  {{"w2_weight_packed$", "[ep, null, null]"}},
                  {"layers.*.experts.w2_weight_packed I32 16 256 2048",
                   "layers.*.experts.w2_weight_scale BF16 16 16 2048"},
                  {},
                  "layers.*.experts.w2_weight_scale"},
             });
}

TEST_CASE("scales that follow their weight, or need not, are not reported") {
  const std::string down = "layers.*.mlp.down_proj.";
  const std::string gptq = R"({"quantization_config": {"quant_method": "gptq",
      "bits": 4, "group_size": 128, "desc_act": )";
  const std::vector<std::string> indexed = {
      down + "qweight I32 1024 2048", down + "qzeros I32 64 256",
      down + "scales F16 64 2048", down + "g_idx I32 8192"};
  const std::string reordered = gptq + "true}}", kept = gptq + "false}}";
  const std::vector<Tree> trees = {
      {"scales like their weight",
       "tp:4",
       {{"down_proj.weight", "[null, tp]"}},
       {down + "weight F8_E4M3 4096 8192",
        down + "weight_scale_inv F32 32 64"}},
      {"a scale for each output of a row-parallel weight",
       "tp:4",
       {{"down_proj.weight$", "[null, tp]"}},
       {down + "weight F8_E4M3 4096 8192", down + "weight_scale F32 4096 1"}},
      {"one scale of the tensor",
       "tp:4",
       {{"down_proj.weight$", "[null, tp]"}},
       {down + "weight F8_E4M3 4096 8192", down + "weight_scale F32 1"}},
      {"a weight that is gathered before use",
       "fsdp:4",
       {{"down_proj.weight$", "[null, fsdp]"}},
       {down + "weight F8_E4M3 4096 8192",
        down + "weight_scale_inv F32 32 64"}},
      {"whole scales under reordered inputs",
       "tp:2",
       {{"qweight$", "[tp, null]"}, {"g_idx$", "[tp]"}},
       indexed,
       reordered},
      {"indices without a configuration",
       "tp:2",
       {{"qweight$", "[tp, null]"}, {"g_idx$", "[tp]"}},
       indexed},
      {"split scales of consecutive inputs",
       "tp:2",
       {{"(qweight|qzeros|scales)$", "[tp, null]"}, {"g_idx$", "[tp]"}},
       indexed,
       kept},
      {"split outputs of reordered inputs",
       "tp:2",
       {{"(qweight|qzeros|scales)$", "[null, tp]"}},
       indexed,
       reordered},
      {"a bias of a weight that is not quantised",
       "tp:2",
       {{"down_proj.weight$", "[tp, null]"}},
       {down + "weight BF16 2048 8192", down + "bias BF16 2048"}},
  };
  CheckTrees("companion-differs", trees);
  CheckTrees("reordered-scales-split", trees);
}

TEST_CASE("scales that are split along reordered inputs are reported") {
  const std::string gptq =
      R"({"quantization_config": {"quant_method": "gptq", "desc_act": true}})";
  const std::string ct = R"({"quantization_config": {"config_groups":
      {"group_0": {"targets": ["Linear"], "weights":
      {"num_bits": 4, "group_size": 64, "actorder": "group"}}}}})";
  CheckTrees(
      "reordered-scales-split",
      {
          {"experts of GPTQ",
           "tp:4",
           {{"down_proj.(qweight|qzeros|scales)$", "[tp, null]"}},
           {"layers.*.mlp.experts.0.down_proj.qweight I32 96 2048",
            "layers.*.mlp.experts.0.down_proj.qzeros I32 24 256",
            "layers.*.mlp.experts.0.down_proj.scales F16 24 2048",
            "layers.*.mlp.experts.0.down_proj.g_idx I32 768"},
           gptq,
           "layers.*.mlp.experts.*.down_proj.qzeros "
           "layers.*.mlp.experts.*.down_proj.scales"},
          {"names without roles, with 8 bits",
           "tp:2",
           {{"exit.(qweight|scales)$", "[tp, null]"}},
           {"rows.*.exit.qweight I32 512 4096",
            "rows.*.exit.scales F16 32 4096", "rows.*.exit.g_idx I32 2048"},
           gptq,
           "rows.*.exit.scales"},
          {"compressed-tensors",
           "tp:2",
           {{"o_proj.weight_(packed|scale)$", "[null, tp]"}},
           {"layers.*.self_attn.o_proj.weight_packed I32 1024 256",
            "layers.*.self_attn.o_proj.weight_scale BF16 1024 32",
            "layers.*.self_attn.o_proj.weight_g_idx I32 2048"},
           ct,
           "layers.*.self_attn.o_proj.weight_scale"},
          {"compressed-tensors without its configuration",
           "tp:2",
           {{"o_proj.weight_(packed|scale)$", "[null, tp]"}},
           {"layers.*.self_attn.o_proj.weight_packed I32 1024 256",
            "layers.*.self_attn.o_proj.weight_scale BF16 1024 32",
            "layers.*.self_attn.o_proj.weight_g_idx I32 2048"},
           {},
           "layers.*.self_attn.o_proj.weight_scale"},
          {"one group for all inputs",
           "tp:2",
           {{"o_proj.(qweight)$", "[tp, null]"}},
           {"layers.*.self_attn.o_proj.qweight I32 256 1024",
            "layers.*.self_attn.o_proj.scales F16 1 1024",
            "layers.*.self_attn.o_proj.g_idx I32 2048"},
           gptq,
           {}},
      });
}

// The configuration of 16 heads and 4 KV heads of 64.
constexpr std::string_view kHeads16 =
    R"({"hidden_size": 1024, "num_attention_heads": 16, "head_dim": 64,
        "num_key_value_heads": 4})";

std::vector<std::string> Attention(std::vector<std::string> more) {
  std::vector<std::string> out = {
      "layers.*.self_attn.q_proj.weight BF16 1024 1024",
      "layers.*.self_attn.k_proj.weight BF16 256 1024",
      "layers.*.self_attn.v_proj.weight BF16 256 1024",
      "layers.*.self_attn.o_proj.weight BF16 1024 1024"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST_CASE(
    "a parameter with numbers for each head is reported if it is replicated") {
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"(q|k|v)_proj.weight$", "[tp, null]"}, {"o_proj.weight$", "[null, tp]"}};
  const std::string at = "layers.*.self_attn.";
  for (const std::string own :
       {"g_proj.weight BF16 16 1024", "gate_proj.weight BF16 16 1024",
        "per_head.weight BF16 16 1024", "b_proj.weight BF16 16 1024",
        "f_proj.kernel BF16 1024 16", "attention_sink_bias BF16 16",
        "head_scale BF16 16", "alibi_slopes F32 16", "temperature BF16 16 1 1",
        "to_gate_logits.bias BF16 16"}) {
    CAPTURE(own);
    CheckTrees("head-vector-whole",
               {{own, "tp:4", rules, Attention({at + own}), kHeads16,
                 at + own.substr(0, own.find(' '))}});
  }
  CheckTrees(
      "head-vector-whole",
      {
          {"the norm of the queries shows the heads",
           "tp:2",
           {{"wq.weight$", "[tp, null]"}},
           {"h.*.attn.wq.weight BF16 768 512", "h.*.attn.q_norm.weight BF16 64",
            "h.*.attn.valve.weight BF16 12 512"},
           {},
           "h.*.attn.valve.weight"},
          {"a projection whose name shows no role",
           "tp:8",
           {{"wq_b.weight$", "[tp, null]"}},
           {"layers.*.attn.wq_b.weight BF16 4096 256",
            "layers.*.attn.attn_sink F32 64"},
           R"({"hidden_size": 1024, "num_attention_heads": 64, "head_dim": 64})",
           "layers.*.attn.attn_sink"},
          {"layers with more heads than the configuration states",
           "tp:2",
           {{"q_proj.weight$", "[tp, null]"}},
           {"layers.*.self_attn.q_proj.weight BF16 1536 1024",
            "layers.*.self_attn.q_norm.weight BF16 64",
            "layers.*.self_attn.g_proj.weight BF16 24 1024",
            "tail.*.self_attn.q_proj.weight BF16 1024 1024",
            "tail.*.self_attn.q_norm.weight BF16 64"},
           kHeads16,
           "layers.*.self_attn.g_proj.weight"},
      });
}

TEST_CASE("what has no number for each head, or is split, is not reported") {
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"(q|k|v|g)_proj.weight$", "[tp, null]"},
      {"o_proj.weight$", "[null, tp]"}};
  const std::string at = "layers.*.self_attn.";
  for (const std::string own :
       {"g_proj.weight BF16 16 1024",  // split by the rule
        "k_norm.weight BF16 64",       // a norm of one head
        "gate.weight BF16 1024 1024",  // a gate for each column
        "rotary_emb.inv_freq F32 16",  // frequencies of a rotation
        "indexer.weights_proj.weight BF16 16 1024",  // heads of another module
        "q_proj.lora_A.weight BF16 16 1024",         // the rank of an adapter
        "q_proj.weight_scale_inv F32 16 8",          // blocks of a weight
        "mixing.weight BF16 16 16",                  // both sides have the size
        "o_proj.bias BF16 1024", "mask BF16 1 1"}) {
    CAPTURE(own);
    CheckTrees("head-vector-whole",
               {{own, "tp:4", rules, Attention({at + own}), kHeads16}});
  }
  const std::vector<std::pair<std::string, std::string>> heads_only = {
      {"q_proj.weight$", "[tp, null]"}};
  CheckTrees(
      "head-vector-whole",
      {
          {"two factors of this rank", "tp:4", heads_only,
           Attention(
               {at + "a.weight BF16 16 1024", at + "b.weight BF16 512 16"}),
           kHeads16},
          {"as many heads as columns of a head",
           "tp:4",
           heads_only,
           {"layers.*.self_attn.q_proj.weight BF16 4096 1024",
            "layers.*.self_attn.k_one.weight BF16 64 1024",
            "layers.*.self_attn.rescale BF16 64"},
           R"({"hidden_size": 1024, "num_attention_heads": 64, "head_dim": 64})"},
          {"heads that are not split",
           "fsdp:4",
           {{"q_proj.weight$", "[fsdp, null]"}},
           Attention({at + "g_proj.weight BF16 16 1024"}),
           kHeads16},
          {"no evidence of heads", "tp:4", heads_only,
           Attention({at + "g_proj.weight BF16 16 1024"})},
      });
}

TEST_CASE("heads of towers that the axis does not divide are reported") {
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"(q|k|v)_proj.weight$", "[tp, null]"},
      {"w?qkv.weight$", "[tp, null]"},
      {"(o_proj|out_proj|attn.proj|wo).weight$", "[null, tp]"}};
  // 16 heads of 64 in the language model, which 8 divides.
  const std::string text = R"("text_config": {"hidden_size": 1024,
      "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64})";
  const auto model = [&](const std::string& tower) {
    return "{" + text + ", " + tower + "}";
  };
  const auto tree = [&](std::vector<std::string> more) {
    std::vector<std::string> out = {
        "model.layers.*.self_attn.q_proj.weight BF16 1024 1024",
        "model.layers.*.self_attn.k_proj.weight BF16 512 1024",
        "model.layers.*.self_attn.v_proj.weight BF16 512 1024",
        "model.layers.*.self_attn.o_proj.weight BF16 1024 1024"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const std::string siglip = model(
      R"("vision_config": {"hidden_size": 768, "num_attention_heads": 12})");
  const std::string glm = model(
      R"("vision_config": {"hidden_size": 768, "num_heads": 12, "depth": 2})");
  const std::string audio = model(
      R"("audio_config": {"d_model": 640, "encoder_attention_heads": 10})");
  const std::string both = model(
      R"("vision_config": {"hidden_size": 1152, "num_attention_heads": 16},
         "audio_config": {"d_model": 640, "encoder_attention_heads": 10})");
  const std::string even = model(
      R"("vision_config": {"hidden_size": 1152, "num_attention_heads": 16})");
  const std::string same = model(
      R"("vision_config": {"hidden_size": 1024, "num_attention_heads": 12,
                           "head_dim": 64})");
  CheckTrees(
      "head-split",
      {
          {"siglip", "tp:8", rules,
           tree({"vision_tower.encoder.layers.*.self_attn.q_proj.weight BF16 "
                 "768 768"}),
           siglip, "vision_tower.encoder.layers.*.self_attn.q_proj.weight"},
          {"one matrix for query, key and value", "tp:8", rules,
           tree({"visual.blocks.*.attn.qkv.weight BF16 2304 768",
                 "visual.blocks.*.attn.proj.weight BF16 768 768"}),
           glm,
           "visual.blocks.*.attn.qkv.weight visual.blocks.*.attn.proj.weight"},
          {"a stack that no word calls a tower", "tp:8", rules,
           tree({"eyes.rows.*.attn.wqkv.weight BF16 2304 768"}), siglip,
           "eyes.rows.*.attn.wqkv.weight"},
          {"an audio tower", "tp:4", rules,
           tree(
               {"audio_tower.layers.*.self_attn.q_proj.weight BF16 640 640",
                "audio_tower.layers.*.self_attn.out_proj.weight BF16 640 640"}),
           audio,
           "audio_tower.layers.*.self_attn.q_proj.weight "
           "audio_tower.layers.*.self_attn.out_proj.weight"},
          {"the second of two towers", "tp:4", rules,
           tree({"seeing.*.attn.qkv.weight BF16 3456 1152",
                 "hearing.*.self_attn.k_proj.weight BF16 640 640"}),
           both, "hearing.*.self_attn.k_proj.weight"},
          {"a tower as wide as the language model", "tp:8", rules,
           tree(
               {"vision_model.layers.*.self_attn.q_proj.weight BF16 768 1024"}),
           same, "vision_model.layers.*.self_attn.q_proj.weight"},
          {"heads that the axis divides", "tp:8", rules,
           tree({"visual.blocks.*.attn.qkv.weight BF16 3456 1152"}), even},
          {"a tower that is not split",
           "tp:8",
           {{"model.layers.*_proj.weight$", "[tp, null]"}},
           tree({"visual.blocks.*.attn.qkv.weight BF16 2304 768"}),
           siglip},
          {"a tower whose sizes are not stated", "tp:8", rules,
           tree({"visual.blocks.*.attn.qkv.weight BF16 2304 768"}),
           model(R"("vision_config": {"hidden_size": 768})")},
          {"the language model next to a tower",
           "tp:16",
           rules,
           {"language_model.layers.*.attention.wqkv.weight BF16 2048 1024",
            "vision_model.layers.*.attn.qkv.weight BF16 3456 1152"},
           even,
           "language_model.layers.*.attention.wqkv.weight"},
      });
}

TEST_CASE("stacks of experts whose layers are numbered are no scanned layers") {
  const std::vector<std::pair<std::string, std::string>> rules = {
      {"experts.", "[ep, null, null]"}};
  for (const std::string prefix :
       {"mtp.layers.*", "draft.layers.*", "model.mtp.blocks.*", "nextn.*",
        "encoder.layers.*", "mtp"}) {
    for (const std::string experts : {"8", "16", "128"}) {
      CAPTURE(prefix);
      CAPTURE(experts);
      std::vector<std::string> params;
      for (const std::string& path : {std::string("model.layers.*"), prefix}) {
        params.push_back(path + ".mlp.experts.gate_up_proj BF16 " + experts +
                         " 1024 512");
        params.push_back(path + ".mlp.experts.down_proj BF16 " + experts +
                         " 512 512");
        params.push_back(path + ".mlp.gate.weight BF16 " + experts + " 512");
      }
      CheckTrees("layers-split", {{prefix, "ep:4", rules, params}});
    }
  }
  // Scanned layers of experts are still found.
  CheckTrees("layers-split", {{"scanned",
                               "fsdp:4",
                               {{"experts", "[fsdp, null, null, null]"}},
                               {"layers.experts.up BF16 12 8 256 512",
                                "layers.experts.down BF16 12 8 512 256",
                                "layers.router.kernel BF16 12 256 8",
                                "layers.norm.scale BF16 12 256"},
                               {},
                               "layers.experts.up layers.experts.down"}});
}

}  // namespace
}  // namespace shardc
