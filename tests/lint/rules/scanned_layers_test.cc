// A tree whose layers are scanned, with the findings of the same tree with a
// tensor for each layer.
#include <string>
#include <string_view>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

// Returns a tree of a decoder, and rules that split its heads, router and norm
// wrongly. With `layers` the parameters of all layers are in one tensor.
LintExample WrongDecoder(bool layers, std::string& rules, std::string& tree) {
  const std::string path = layers ? "layers/" : "layers/0/";
  const std::string none = layers ? "null, " : "";
  rules = "version: 1\nrules:\n";
  const auto rule = [&](const char* match, const char* spec) {
    rules += "  - {match: '" + std::string(match) + "', spec: [" + none + spec +
             "]}\n";
  };
  rule("attn/[qkvo]_proj", "FSDP, TP");
  rule("norm", "TP");
  rule("router", "FSDP, TP");
  rule("kv_a_proj", "FSDP, TP");
  tree = R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {)";
  const auto param = [&](const char* name, const char* shape) {
    if (tree.back() != '{') tree += ",";
    tree += "\"" + path + name + R"(": {"dtype": "BF16", "shape": [)" +
            (layers ? "24, " : "") + shape + "]}";
  };
  param("self_attn/q_proj/kernel", "768, 768");
  param("self_attn/k_proj/kernel", "768, 128");
  param("self_attn/v_proj/kernel", "768, 128");
  param("self_attn/o_proj/kernel", "768, 768");
  param("input_norm/scale", "768");
  param("mlp/router/kernel", "768, 8");
  param("mla/kv_a_proj_with_mqa/kernel", "768, 96");
  tree += "}}";
  return {.mesh = "fsdp:2,tp:8",
          .rules = rules,
          .manifest = tree,
          .model = R"({"num_attention_heads": 12, "num_key_value_heads": 2,
                       "head_dim": 64, "hidden_size": 768,
                       "num_hidden_layers": 24})"};
}

TEST_CASE(
    "projections and norms of scanned layers are judged as those of one") {
  for (const bool layers : {false, true}) {
    CAPTURE(layers);
    std::string rules, tree;
    const LintExample example = WrongDecoder(layers, rules, tree);
    const auto has = [&](const char* code, std::string_view words) {
      std::string texts;
      for (const Finding& finding : FindingsOf(example)) {
        if (finding.code->Id() == code) texts += finding.message + "\n";
      }
      CAPTURE(texts);
      CHECK(texts.find(words) != std::string::npos);
    };
    const std::string path = layers ? "`layers/" : "`layers/0/";
    const std::string last = layers ? "dimension 2 of " : "dimension 1 of ";
    has("SHD220",
        last + path + "self_attn/q_proj/kernel` holds 12 heads of 64");
    has("SHD220",
        last + path + "self_attn/v_proj/kernel` hold 2 KV heads of 64");
    has("SHD214",
        "input of " + path + "self_attn/o_proj/kernel` split over null");
    has("SHD226", last + path + "mlp/router/kernel` scores 8 experts");
    has("SHD227", path + R"(input_norm/scale` is split over "tp")");
    has("SHD227", "for 768 elements");
    has("SHD228", last + path + "mla/kv_a_proj_with_mqa/kernel` is the latent");
  }
}

TEST_CASE("the parts of fused projections of scanned layers are found") {
  const auto messages = [](const char* shape, const char* spec,
                           const char* code) {
    const std::string rules =
        "version: 1\nrules:\n  - {match: 'qkv', spec: " + std::string(spec) +
        "}\n  - {match: 'norm', spec: [_]}\n";
    const std::string tree =
        R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "layers/self_attn/qkv_proj/kernel": {"shape": )" +
        std::string(shape) + R"(, "dtype": "BF16"},
  "layers/norm/scale": {"shape": [24, 768], "dtype": "BF16"}}})";
    const LintExample example{.mesh = "tp:8",
                              .rules = rules,
                              .manifest = tree,
                              .model = R"({"num_attention_heads": 16,
                                           "num_key_value_heads": 2,
                                           "head_dim": 30, "hidden_size": 768,
                                           "num_hidden_layers": 24})"};
    std::string out;
    for (const Finding& finding : FindingsOf(example)) {
      if (finding.code->Id() == code) out += finding.message;
    }
    return out;
  };
  // 16 heads and twice 2 KV heads of 30: 600 columns divide by 8, the 60 of the
  // keys do not.
  CHECK(messages("[24, 768, 600]", "[null, null, TP]", "SHD221")
            .starts_with("dimension 2 of `layers/self_attn/qkv_proj/kernel` is "
                         "600 wide and holds several parts, keys 60"));
  CHECK(messages("[24, 768, 2304]", "[null, null, TP]", "SHD230")
            .starts_with("dimension 2 of `layers/self_attn/qkv_proj/kernel` "
                         "holds several parts"));
  CHECK(messages("[24, 768, 600]", "[null, TP, null]", "SHD221").empty());
}

TEST_CASE("projections whose second dimension counts layers are oriented") {
  const auto messages = [](const char* into, const char* from) {
    const std::string rules =
        "version: 1\nrules:\n  - {match: '[qkv]_proj', spec: " +
        std::string(into) + "}\n  - {match: 'o_proj', spec: " + from +
        "}\n  - {match: 'up|norm', spec: [_]}\n";
    const LintExample example{
        .mesh = "fsdp:2,tp:4",
        .rules = rules,
        .manifest =
            R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {
  "layers/self_attn/q_proj/kernel": {"shape": [768, 24, 768], "dtype": "BF16"},
  "layers/self_attn/k_proj/kernel": {"shape": [768, 24, 768], "dtype": "BF16"},
  "layers/self_attn/v_proj/kernel": {"shape": [768, 24, 768], "dtype": "BF16"},
  "layers/self_attn/o_proj/kernel": {"shape": [768, 24, 768], "dtype": "BF16"},
  "layers/mlp/up_proj/kernel": {"shape": [768, 24, 3072], "dtype": "BF16"},
  "layers/norm/scale": {"shape": [768, 24], "dtype": "BF16"}}})",
        .model = R"({"num_attention_heads": 12, "hidden_size": 768,
                     "num_hidden_layers": 24})"};
    std::string out;
    for (const Finding& finding : FindingsOf(example)) {
      if (finding.code->Id() == "SHD214") out += finding.message + "\n";
    }
    return out;
  };
  CHECK(messages("[FSDP, null, TP]", "[TP, null, FSDP]").empty());
  CHECK(messages("[TP, null, FSDP]", "[TP, null, FSDP]")
            .find("split their input over \"tp\"") != std::string::npos);
}

TEST_CASE("adapters, head vectors and sizes of scanned layers are judged") {
  for (const bool layers : {false, true}) {
    CAPTURE(layers);
    const std::string path = layers ? "layers/" : "layers/0/";
    const std::string none = layers ? "null, " : "";
    const std::string rules =
        "version: 1\nrules:\n  - {match: 'lora_A', spec: [" + none +
        "null, TP]}\n  - {match: 'lora_B', spec: [" + none +
        "TP, null]}\n  - {match: '[qk]_proj/kernel', spec: [" + none +
        "FSDP, TP]}\n  - {match: 'norm|sinks', spec: Replicated}\n"
        "  - {match: 'experts', spec: [" +
        none + "EXPERT]}\n";
    std::string tree =
        R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {)";
    const auto param = [&](const char* name, const char* shape) {
      if (tree.back() != '{') tree += ",";
      tree += "\"" + path + name + R"(": {"dtype": "BF16", "shape": [)" +
              (layers ? "24, " : "") + shape + "]}";
    };
    param("self_attn/q_proj/kernel", "768, 1024");
    param("self_attn/k_proj/kernel", "768, 256");
    param("self_attn/q_proj/lora_A/kernel", "768, 16");
    param("self_attn/q_proj/lora_B/kernel", "16, 1024");
    param("self_attn/q_norm/scale", "1024");
    param("self_attn/sinks", "16");
    param("input_norm/scale", "768");
    param("mlp/experts/up_proj", "8, 768, 128");
    tree += "}}";
    const auto has = [&](const char* model, const char* code,
                         const std::string& words) {
      std::string texts;
      for (const Finding& finding : FindingsOf({.mesh = "fsdp:2,tp:8",
                                    .rules = rules,
                                    .manifest = tree,
                                    .model = model})) {
        if (finding.code->Id() == code) texts += finding.message + "\n";
      }
      CAPTURE(texts);
      CHECK(texts.find(words) != std::string::npos);
    };
    const char* const right =
        R"({"num_attention_heads": 16, "num_key_value_heads": 4,
            "head_dim": 64, "hidden_size": 768, "num_hidden_layers": 24})";
    const char* const wrong =
        R"({"num_attention_heads": 12, "num_key_value_heads": 4,
            "head_dim": 64, "hidden_size": 768, "num_hidden_layers": 24,
            "num_local_experts": 6})";
    has(wrong, "SHD223",
        "gives 12 heads of 64, which is 768, and `" + path +
            "self_attn/q_proj/kernel` is 1024 wide");
    has(wrong, "SHD223",
        "gives 6 experts, and `" + path + "mlp/experts/up_proj` holds 8");
    has(right, "SHD229",
        (layers ? "dimension 2 of `" : "dimension 1 of `") + path +
            "self_attn/q_proj/lora_A/kernel` is the adapter's rank, 16");
    has(right, "SHD229",
        (layers ? "dimension 1 of `" : "dimension 0 of `") + path +
            "self_attn/q_proj/lora_B/kernel` is the adapter's rank, 16");
    has(right, "SHD231",
        "`" + path +
            "self_attn/q_norm/scale` norms all 1024 columns of the query");
    has(right, "SHD231",
        "`" + path + "self_attn/sinks` holds a number for each of 16 heads");
  }
}

}  // namespace
}  // namespace shardc
