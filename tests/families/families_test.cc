#include "families/families.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "families/configs.h"
#include "families/description.h"
#include "families/evaluate.h"
#include "parse/project.h"

namespace shardc::families {
namespace {

TEST_CASE("every description can be read") {
  CHECK(ModelTypes().size() >= 40);
  for (const std::string_view name : ModelTypes()) {
    Findings findings;
    const auto family = LoadDescription(name, Library(), findings);
    CAPTURE(name);
    REQUIRE(family != nullptr);
    CHECK(findings.empty());
    CHECK_FALSE(family->models.empty());
    CHECK_FALSE(family->tree.empty());
  }
}

TEST_CASE("a tree follows the config and the naming") {
  const auto document = Config("{" + kSmall + R"(, "dtype": "bfloat16"})");
  Findings findings;
  const auto hf = BuildTree(*document, "hf", findings);
  REQUIRE(hf);
  CHECK(hf->model == "llama");
  CHECK(hf->separator == '.');
  CHECK(hf->tensors[0].name == "model.embed_tokens.weight");
  CHECK(hf->TypeOf(hf->tensors[0]) == TensorType{{{10, 8}}, Dtype::kBF16});
  CHECK(hf->tensors.back().name == "lm_head.weight");
  CHECK(hf->tensors.size() == 21);
  const auto flax = BuildTree(*document, "flax", findings);
  REQUIRE(flax);
  CHECK(flax->separator == '/');
  CHECK(flax->tensors[0].name == "model/embed_tokens/embedding");
  CHECK(flax->tensors[5].name == "model/layers/0/mlp/gate_proj/kernel");
  CHECK(*flax->TypeOf(flax->tensors[5]).shape == Shape{8, 12});
  CHECK(findings.empty());
}

TEST_CASE(
    "classes by which models were published before transformers had one") {
  for (const auto& one : {std::pair("phimoe", "PhiMoEForCausalLM"),
                          std::pair("falcon", "RWForCausalLM")}) {
    const char* name = one.second;
    CAPTURE(name);
    const auto document = Config(
        "{" + kSmall.substr(kSmall.find(", ") + 2) + R"(, "model_type": ")" +
        one.first + R"(", "num_local_experts": 4, "architectures": [")" + name +
        "\"]}");
    Findings findings;
    CHECK(BuildTree(*document, "hf", findings));
    CHECK(findings.empty());
  }
}

TEST_CASE("Kimi K2 has the tree of DeepSeek-V3") {
  const std::string sizes =
      R"( "vocab_size": 10, "hidden_size": 8, "intermediate_size": 12,)"
      R"( "moe_intermediate_size": 12, "num_hidden_layers": 2,)"
      R"( "num_attention_heads": 2, "n_routed_experts": 4,)"
      R"( "first_k_dense_replace": 1, "kv_lora_rank": 6, "q_lora_rank": 4,)"
      R"( "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4,)"
      R"( "architectures": ["DeepseekV3ForCausalLM"]})";
  for (const std::string_view naming : {"hf", "hf-files"}) {
    Findings findings;
    const auto kimi = BuildTree(*Config(R"({"model_type": "kimi_k2",)" + sizes),
                                naming, findings);
    const auto deepseek = BuildTree(
        *Config(R"({"model_type": "deepseek_v3",)" + sizes), naming, findings);
    REQUIRE(kimi);
    REQUIRE(deepseek);
    REQUIRE(kimi->tensors.size() == deepseek->tensors.size());
    CHECK(kimi->model == "kimi_k2");
    for (size_t i = 0; i < kimi->tensors.size(); ++i) {
      CHECK(kimi->tensors[i].name == deepseek->tensors[i].name);
      CHECK(kimi->TypeOf(kimi->tensors[i]) ==
            deepseek->TypeOf(deepseek->tensors[i]));
    }
  }
}

TEST_CASE("of a quantised model the tree before quantisation is reported") {
  const auto document =
      Config("{" + kSmall +
             R"(, "dtype": "bfloat16", "quantization_config": {"bits": 4}})");
  Findings findings;
  const auto tree = BuildTree(*document, "hf", findings);
  REQUIRE(tree);
  CHECK(tree->notes.size() == 1);
}

TEST_CASE("an unknown model type is refused, with a suggestion if misspelled") {
  const std::string lama = Refused(With("model_type", "\"lama\""));
  CHECK(
      lama.starts_with("there is no description of model type `lama` @ "
                       "\"lama\" -> did you mean `llama`? "));
  const std::string described =
      std::to_string(ModelTypes().size()) +
      " types are described, `llama` and `bert` among them; for another, give "
      "a manifest, or a folder with its description: `--families DIR` "
      "(`python -m shardc.family` writes one from the model's class)";
  CHECK(lama.ends_with("did you mean `llama`? " + described));
  CHECK(Refused(With("model_type", "\"mistral4\"")) ==
        "there is no description of model type `mistral4` @ \"mistral4\" -> " +
            described +
            " (the nearest name is `mistral`, which a description can be "
            "`like`)");
  CHECK(Refused(With("model_type", "\"xyz\"")).ends_with("-> " + described));
  CHECK(Refused(With("model_type", '"' + std::string(5000, 'x') + '"'))
            .find("...` @ ") < 150);
  CHECK(Refused("{}").starts_with(
      "the configuration has no `model_type` @ { ->"));
  CHECK(Refused(With("model_type", "7"))
            .starts_with("`model_type` is the number `7`, not a string"));
}

TEST_CASE("another class or naming than is described is refused") {
  CHECK(Refused(With("architectures", R"(["LlamaForSequenceClassification"])"))
            .starts_with("the tree of `LlamaForSequenceClassification` is not "
                         "described @ [\"LlamaFor"));
  CHECK(Refused(With("model_type", "\"qwen3\""), "flax") ==
        "model type `qwen3` has no naming `flax` @ \"qwen3\" -> it has `hf`, "
        "`hf-files`, `easydel`");
}

TEST_CASE("sizes that are missing or absurd are reported at their place") {
  CHECK(Refused(With("hidden_size", "null")) ==
        "the configuration has no `hidden_size` @ null -> a model of type "
        "`llama` needs it");
  CHECK(Refused(R"({"model_type": "llama"})")
            .starts_with("the configuration has no `vocab_size` @ { ->"));
  CHECK(Refused(With("hidden_size", "\"8\""))
            .starts_with("`hidden_size` is the string `8`, not an integer @ "
                         "\"8\""));
  // The size is a parameter of a block, which has another name there.
  CHECK(Refused(With("intermediate_size", "[12]"))
            .starts_with("`intermediate_size` is a list, not an integer @ "
                         "[12]"));
  CHECK(Refused(R"({"model_type": "deepseek_v3", "vocab_size": 10,)"
                R"( "hidden_size": 8, "intermediate_size": 12,)"
                R"( "moe_intermediate_size": 12, "num_hidden_layers": 1,)"
                R"( "num_attention_heads": 2, "n_routed_experts": -4,)"
                R"( "first_k_dense_replace": 0, "kv_lora_rank": 6,)"
                R"( "qk_nope_head_dim": 4, "qk_rope_head_dim": 2,)"
                R"( "v_head_dim": 4})")
            .find("` would have a dimension of -4 @ -4 -> ") !=
        std::string::npos);
  CHECK(Refused(With("hidden_size", "8.5"))
            .starts_with("`hidden_size` is the number `8.5`, not an integer @ "
                         "8.5"));
  CHECK(Refused(With("vocab_size", "0")) ==
        "`vocab_size` is 0, and a size is at least 1 @ 0 -> ");
  CHECK(Refused(With("vocab_size", "-3")) ==
        "`vocab_size` is -3, and a size is at least 1 @ -3 -> ");
  CHECK(Refused(With("num_hidden_layers", "-1"))
            .starts_with("`num_hidden_layers` is -1, and a size"));
  CHECK(Refused(With("num_hidden_layers", "0"))
            .starts_with("`num_hidden_layers` is 0, and a size"));
  CHECK(Refused(With("num_attention_heads", "0"))
            .starts_with("`num_attention_heads` is 0, and a size"));
  CHECK(Refused(R"({"model_type": "vit", "hidden_size": 8,)"
                R"( "num_hidden_layers": 1, "num_attention_heads": 1,)"
                R"( "intermediate_size": 1, "patch_size": -2,)"
                R"( "image_size": 8})")
            .starts_with("sizes are divided by this, and it is -2 @ -2"));
  CHECK(Refused(With("num_attention_heads", "16"))
            .starts_with("a hidden size of 8 does not divide into 16"));
  CHECK(Refused(R"({"model_type": "qwen", "vocab_size": 9, "hidden_size": 8,)"
                R"( "num_hidden_layers": 1, "num_attention_heads": 1,)"
                R"( "intermediate_size": 1})")
            .find("` would have a dimension of 0 @ 1 -> ") !=
        std::string::npos);
  CHECK(Refused(With("hidden_size", "1000000000000"))
            .starts_with("`hidden_size` is larger than in any model @ "
                         "1000000000000"));
  CHECK(Refused(With("hidden_size", "100000000000000000000"))
            .starts_with("`hidden_size` is"));
}

TEST_CASE("no tree has more tensors than the limit") {
  const std::string many = Refused(With("num_hidden_layers", "60000000"));
  CHECK(
      many.starts_with("`num_hidden_layers` is 60,000,000 layers, and a model "
                       "has at most 10,000 @ 60000000"));
}

TEST_CASE("sizes whose product overflows are reported") {
  CHECK(Refused(R"({"model_type": "vit", "hidden_size": 67108864,)"
                R"( "num_hidden_layers": 1, "num_attention_heads": 1,)"
                R"( "intermediate_size": 1, "patch_size": 67108864,)"
                R"( "image_size": 67108864})")
            .find(", does not fit in 64 bits") != std::string::npos);
}

TEST_CASE("expressions that cannot be read are reported") {
  for (const std::string text :
       {"", "a +", "(a", "a b", "'open", "f(a,", "[1, 2", "a if b", "1 / 2",
        "99999999999999999999", "a ?", "not"}) {
    Findings findings;
    CAPTURE(text);
    CHECK_FALSE(ParseExpression(text, {}, findings));
    CHECK(findings.errors() == 1);
    CHECK(findings.all()[0].message.find(" cannot be read from character ") !=
          std::string::npos);
  }
  Findings findings;
  std::string deep(1000, '(');
  CHECK_FALSE(ParseExpression(deep + "1", {}, findings));
  CHECK(findings.all()[0].message.starts_with("an expression has more than "));
}

TEST_CASE("heads that are tied by default are those of ModelConfig") {
  // Descriptions that leave out a head which ModelConfig does not call tied.
  // Checkpoints of Falcon hold both tensors, as do those of Mistral 3 that were
  // written before Transformers 5. Encoders are often classes without a head,
  // and the config class of mT5 does not tie what Transformers 5 ties.
  const std::set<std::string_view> otherwise = {
      "RefinedWebModel", "bert", "distilbert", "falcon", "mistral3", "mt5",
      "roberta",         "umt5", "xlm-roberta"};
  std::set<std::string_view> differing;
  int tied = 0;
  for (const std::string_view name : ModelTypes()) {
    CAPTURE(name);
    Findings findings;
    const auto family = LoadDescription(name, Library(), findings);
    REQUIRE(family != nullptr);
    const Expression* const described = family->FindLet("tied");
    if (described == nullptr) continue;
    const auto document =
        Config(R"({"model_type": ")" + std::string(name) + R"("})");
    Evaluator values(*family, document->root(), "hf", findings);
    const auto leaves_out = values.Condition(*described);
    const auto model = ReadModelConfig(*document, findings);
    REQUIRE(leaves_out.has_value());
    REQUIRE(model.has_value());
    CHECK(findings.empty());
    tied += model->tied_embeddings ? 1 : 0;
    if (*leaves_out == model->tied_embeddings) continue;
    CHECK(*leaves_out);
    differing.insert(name);
  }
  CHECK(differing == otherwise);
  CHECK(tied == 21);
}

TEST_CASE("what cannot be evaluated is reported at its place") {
  const auto document = Config(R"({"a": 1, "b": [5, 6], "c": {"d": 1}})");
  Description family;
  family.name = "test";
  const auto reported = [&](const std::string& text) {
    Findings findings;
    const auto expression = ParseExpression(text, {}, findings);
    REQUIRE(expression);
    Evaluator values(family, document->root(), "hf", findings);
    CHECK_FALSE(values.Evaluate(*expression));
    REQUIRE(findings.all().size() == 1);
    return findings.all()[0].message;
  };
  CHECK(reported("len(a)") == "a list is expected here");
  CHECK(reported("b[2]") == "`b` has no entry 2");
  CHECK(reported("b[-1]") == "`b` has no entry -1");
  CHECK(reported("nope(a)") == "`test` calls `nope`, which is no function");
  CHECK(reported("a.d") == "`a` is not an object");
}

}  // namespace
}  // namespace shardc::families
