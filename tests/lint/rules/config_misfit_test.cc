#include <set>
#include <string>

#include "doctest/doctest.h"
#include "lint/rules/lint.h"
#include "lint/target.h"

namespace shardc {
namespace {

struct Reported {
  std::multiset<std::string> codes;
  std::set<std::string> skipped;  // for want of sizes that fit
  std::string message;            // of the first misfit
};

Reported Lint(const std::string& params, std::string_view model) {
  const std::string manifest =
      R"({"schema": "shardc.manifest/v1", "separator": "/", "params": {)" +
      params + "}}";
  const LintExample example{.mesh = "tp:2",
                            .rules = R"(version: 1
axes: {head: tp}
rules:
  - {match: '.', spec: [TP]}
)",
                            .manifest = manifest,
                            .model = model};
  std::string errors;
  const LintResult result = LintExampleText(example, &errors);
  CAPTURE(errors);
  REQUIRE(errors.empty());
  Reported out;
  for (const Finding& finding : result.findings) {
    out.codes.insert(finding.code->Id());
    if (finding.code->Id() == "SHD223" && out.message.empty()) {
      out.message = finding.message;
    }
  }
  for (const SkippedLint& skipped : result.skipped) {
    if (skipped.missing == "attention's sizes that fit the parameters") {
      out.skipped.insert(skipped.lint->code.Id());
    }
  }
  return out;
}

const std::set<std::string> kCounting = {"SHD220", "SHD404", "SHD405",
                                         "SHD409"};
const std::string kQuery =
    R"("l/0/attn/q_proj/kernel": {"shape": [512, 1024], "dtype": "BF16"})";
const std::string kKey =
    R"(, "l/0/attn/k_proj/kernel": {"shape": [512, 256], "dtype": "BF16"})";

TEST_CASE("if queries fit, fused projections belong to another tower") {
  const std::string tower =
      R"(, "v/0/attn/qkv/kernel": {"shape": [96, 288], "dtype": "BF16"})";
  constexpr std::string_view kConfig =
      R"({"num_attention_heads": 16, "head_dim": 64, "hidden_size": 512,
          "num_key_value_heads": 4})";
  CHECK(Lint(kQuery + kKey + tower, kConfig).codes.count("SHD223") == 0);
  CHECK(Lint(R"("v/0/attn/qkv/kernel": {"shape": [512, 288], "dtype": "BF16"})",
             kConfig)
            .codes.count("SHD223") == 1);
}

TEST_CASE(
    "a number of heads that contradicts the query is reported, and heads are "
    "not counted") {
  const Reported wrong =
      Lint(kQuery, R"({"num_attention_heads": 8, "head_dim": 64,
                       "hidden_size": 512})");
  CHECK(wrong.codes.count("SHD223") == 1);
  CHECK(wrong.skipped == kCounting);
  CHECK(wrong.message ==
        "the configuration gives 8 heads of 64, which is 512, and "
        "`l/0/attn/q_proj/kernel` is 1024 wide; lints that count heads are "
        "skipped");
  const Reported right =
      Lint(kQuery, R"({"num_attention_heads": 16, "head_dim": 64,
                       "hidden_size": 512})");
  CHECK(right.codes.count("SHD223") == 0);
  CHECK(right.skipped.empty());
  // If a gate is packed with the query, the query's output is twice as wide as
  // the input of the output projection.
  const Reported gated = Lint(
      kQuery +
          R"(, "l/0/attn/o_proj/kernel": {"shape": [512, 512], "dtype": "F32"},
 "l/0/mlp/up/kernel": {"shape": [512, 640], "dtype": "F32"})",
      R"({"num_attention_heads": 8, "head_dim": 64, "hidden_size": 512})");
  CHECK(gated.codes.count("SHD223") == 0);
}

TEST_CASE(
    "KV heads and fused projections are compared with the configuration") {
  const std::string both = kQuery + kKey;
  const auto with_kv = [&](const std::string& kv) {
    return Lint(both, R"({"num_attention_heads": 16, "head_dim": 64,
 "hidden_size": 512, "num_key_value_heads": )" +
                          kv + "}")
        .codes.count("SHD223");
  };
  CHECK(with_kv("4") == 0);
  CHECK(with_kv("8") == 1);
  const auto fused = [](const std::string& width) {
    return Lint(R"("l/0/attn/qkv/kernel": {"dtype": "BF16", "shape": [512, )" +
                    width + "]}",
                R"({"num_attention_heads": 8, "hidden_size": 512,
 "num_key_value_heads": 2})")
        .codes.count("SHD223");
  };
  CHECK(fused("768") == 0);
  CHECK(fused("1536") == 0);
  CHECK(fused("1024") == 1);
}

TEST_CASE(
    "a configuration without sizes of attention is reported for a model with "
    "attention") {
  const Reported none = Lint(kQuery, R"({"hidden_size": 512})");
  CHECK(none.codes.count("SHD223") == 1);
  CHECK(none.skipped == kCounting);
  const Reported no_attention =
      Lint(R"("l/0/mlp/up/kernel": {"shape": [512, 1024], "dtype": "BF16"})",
           R"({"hidden_size": 512})");
  CHECK(no_attention.codes.count("SHD223") == 0);
}

TEST_CASE("hidden size, vocabulary and experts are compared with the shapes") {
  const auto count = [](const std::string& params, std::string_view model) {
    return Lint(params, model).codes.count("SHD223");
  };
  const std::string up =
      R"("l/0/mlp/up/kernel": {"shape": [512, 1024], "dtype": "BF16"})";
  CHECK(count(up, R"({"hidden_size": 640})") == 1);
  CHECK(count(up, R"({"hidden_size": 512})") == 0);
  const std::string embedding =
      R"("embed_tokens/embedding": {"shape": [32000, 512], "dtype": "BF16"})";
  CHECK(count(embedding, R"({"vocab_size": 32001})") == 1);
  CHECK(count(embedding, R"({"vocab_size": 31990})") == 0);
  const std::string experts =
      R"("l/0/experts/up/kernel": {"shape": [8, 512, 64], "dtype": "BF16"})";
  CHECK(count(experts, R"({"num_experts": 16})") == 1);
  CHECK(count(experts, R"({"num_experts": 8})") == 0);
  // A tensor whose numbers each hold several weights is not compared.
  const std::string packed =
      R"("l/0/attn/q_proj/weight": {"shape": [64, 512], "dtype": "I32"})";
  CHECK(count(packed, R"({"num_attention_heads": 8, "hidden_size": 512})") ==
        0);
}

TEST_CASE("the inner width and the layers are compared with the parameters") {
  const auto layers = [](int count, std::string_view model,
                         const std::string& more = "") {
    std::string params;
    for (int layer = 0; layer < count; ++layer) {
      params += (layer == 0 ? "" : ", ") + std::string("\"l/") +
                std::to_string(layer) +
                R"(/mlp/down/kernel": {"shape": [1024, 512], "dtype": "BF16"})";
    }
    return Lint(params + more, model).message;
  };
  CHECK(layers(1, R"({"intermediate_size": 1024})").empty());
  CHECK(layers(1, R"({"intermediate_size": 512})").empty());
  CHECK(layers(1, R"({"intermediate_size": 4096})") ==
        "the configuration gives an intermediate size of 4096, which is no "
        "dimension of any matrix");
  // Models with experts state widths that no matrix need have.
  CHECK(layers(1, R"({"intermediate_size": 4096, "moe_intermediate_size": 64})")
            .empty());
  CHECK(layers(3, R"({"num_hidden_layers": 3})").empty());
  CHECK(layers(3, R"({"num_hidden_layers": 2})") ==
        "the configuration gives 2 layers, and `l` has 3");
  // A layer that predicts a further token is not one of the configuration's.
  CHECK(layers(3, R"({"num_hidden_layers": 2})",
               R"(, "l/2/eh_proj/kernel": {"shape": [8, 4], "dtype": "BF16"})")
            .empty());
  // Each of the scanned blocks may have several layers.
  const std::string scanned =
      R"("l/mlp/down/kernel": {"shape": [4, 1024, 512], "dtype": "BF16"},
         "l/mlp/up/kernel": {"shape": [4, 512, 1024], "dtype": "BF16"},
         "l/norm/scale": {"shape": [4, 512], "dtype": "BF16"})";
  CHECK(Lint(scanned, R"({"num_hidden_layers": 8})").message.empty());
}

}  // namespace
}  // namespace shardc
