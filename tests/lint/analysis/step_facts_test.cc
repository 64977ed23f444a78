// Checks that the facts of a step with some of a model's layers are equal, to
// the byte, to those of a step with all layers.
#include "lint/analysis/step_facts.h"

#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "doctest/doctest.h"
#include "families/families.h"
#include "lint/analysis/facts.h"
#include "lint/run.h"
#include "lint/target.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "target/open.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

struct Family {
  const char* pack;
  const char* config;
};

const Family kFamilies[] = {
    {"builtin:llama",
     R"({"model_type": "llama", "vocab_size": 1024, "hidden_size": 512,
        "intermediate_size": 1024, "num_hidden_layers": 7,
        "rms_norm_eps": 1e-5, "num_attention_heads": 8,
        "num_key_value_heads": 4})"},
    {"builtin:mixtral",
     R"({"model_type": "mixtral", "vocab_size": 1024, "hidden_size": 512,
        "intermediate_size": 1024, "num_hidden_layers": 5,
        "rms_norm_eps": 1e-5, "num_attention_heads": 8,
        "num_key_value_heads": 4, "num_local_experts": 8,
        "num_experts_per_tok": 2})"},
    {"builtin:deepseek",
     R"({"model_type": "deepseek_v3", "vocab_size": 1024, "hidden_size": 512,
        "intermediate_size": 1024, "moe_intermediate_size": 256,
        "num_hidden_layers": 6, "first_k_dense_replace": 2,
        "num_attention_heads": 8, "num_key_value_heads": 8,
        "q_lora_rank": 128, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 16,
        "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4,
        "topk_group": 2, "num_nextn_predict_layers": 0,
        "rms_norm_eps": 1e-6, "moe_layer_freq": 1})"},
    {"builtin:gpt2",
     R"({"model_type": "gpt2", "vocab_size": 1024, "n_embd": 512, "n_layer": 4,
        "n_head": 8, "n_positions": 8192, "layer_norm_epsilon": 1e-5})"},
};

struct Target {
  std::unique_ptr<const Compiled> compiled;
  std::optional<ModelConfig> config;
};

Target TargetOf(const Family& family, const char* mesh, const char* axes = "") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("config.json", family.config);
  const std::string rules = folder.Write(
      "rules.yaml", "version: 1\nextends: [" + std::string(family.pack) +
                        "]\n" + axes + "rules: []\n");
  Findings findings;
  Target out;
  out.config = ReadModelConfig(path, findings);
  auto manifest = families::BuildTree(path, "hf", findings);
  auto parsed =
      ParseMeshString(MakeSource("--mesh", mesh), std::nullopt, findings);
  REQUIRE(manifest.has_value());
  REQUIRE(parsed.has_value());
  auto read = OpenRules({rules}, "", &*manifest, "", findings);
  REQUIRE(read.has_value());
  out.compiled = Compile(std::move(*parsed), std::move(*read),
                         std::move(*manifest), CompileOptions{}, findings);
  REQUIRE(out.compiled != nullptr);
  REQUIRE(out.config.has_value());
  return out;
}

int64_t SentByStep(const StepInputs& inputs) {
  StepInputs own = inputs;
  own.roles = nullptr;
  Findings findings;
  auto all = BuildStep(own, {}, findings);
  REQUIRE(all.has_value());
  std::string why;
  const auto program = LowerStep(own, *all, inputs.compiled->mesh, why);
  REQUIRE(program.has_value());
  int64_t out = 0;
  for (const step::Instruction& one : program->code) {
    out += step::SentBytes(all->model.graph, *program, one, all->sizes,
                           inputs.element_bytes);
  }
  return out;
}

TEST_CASE("two layers of each class represent the bytes of all layers") {
  int64_t compared = 0;
  for (const Family& family : kFamilies) {
    for (const char* mesh :
         {"tp:4", "dp:2,fsdp:2,tp:2", "fsdp:4,ep:4", "fsdp:2,sp:2,tp:2"}) {
      const Target target = TargetOf(family, mesh);
      LintInputs inputs;
      inputs.compiled = target.compiled.get();
      inputs.model = &*target.config;
      const Facts facts(inputs);
      CAPTURE(family.pack);
      CAPTURE(mesh);
      REQUIRE(facts.Step() != nullptr);
      CHECK(facts.Step()->refusals().empty());
      for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
        const ModeStep* const step = facts.Step()->Find(mode);
        REQUIRE(step != nullptr);
        CAPTURE(ModeName(mode));
        CHECK(step->Sent() == SentByStep(step->inputs));
        CHECK(step->stands_for.size() < 5);
        ++compared;
      }
    }
  }
  CHECK(compared == 48);
}

TEST_CASE(
    "the bytes that an unsharded hidden dimension saves are those of the "
    "changed step") {
  const Target split = TargetOf(kFamilies[0], "fsdp:2,tp:2");
  const Target whole =
      TargetOf(kFamilies[0], "fsdp:2,tp:2", "axes: {hidden_state: []}\n");
  const auto step_of = [](const Target& target) {
    LintInputs inputs;
    inputs.compiled = target.compiled.get();
    inputs.model = &*target.config;
    return std::make_unique<const Facts>(inputs);
  };
  const auto a = step_of(split), b = step_of(whole);
  const ModeStep* const before = a->Step()->Find(Mode::kTrain);
  const ModeStep* const after = b->Step()->Find(Mode::kTrain);
  REQUIRE(before != nullptr);
  REQUIRE(after != nullptr);
  const auto reported = before->SentWith(
      before->step.specs, {{"resid", "EMBED", {}}, {"normed", "EMBED", {}}});
  REQUIRE(reported.has_value());
  CHECK(*reported == after->Sent());
  CHECK(*reported < before->Sent());
}

// The good example of the lint is what the finding recommends.
TEST_CASE(
    "the bytes that a conflict's finding promises are those of its good "
    "example") {
  const LintExamples& lint = ExamplesOf("clash-moves-activation");
  const auto sent = [](const LintExample& example) {
    TestTarget target = Build(example);
    REQUIRE(target.errors == "");
    target.inputs.model = &*target.model;
    const Facts facts(target.inputs);
    REQUIRE(facts.Step() != nullptr);
    const ModeStep* const step = facts.Step()->Find(Mode::kTrain);
    REQUIRE(step != nullptr);
    return step->Sent();
  };
  CHECK(sent(Filled(lint.bad, lint.good)) < sent(lint.bad));
}

TEST_CASE("a section of another model gives no findings") {
  const LintExample example{.mesh = "tp:2",
                            .rules = R"(version: 1
rules:
  - {match: '.*', spec: [TP]}
model:
  dims: {d: hidden_size, v: vocab_size}
  repeat: num_hidden_layers
  params:
    embed: ['embed$', [v, d]]
  begin:
    - x = lookup(embed, ids) @resid
  layer: []
  end:
    - logits = linear(x, embed) @logits
)",
                            .manifest = R"({"schema": "shardc.manifest/v1",
 "params": {
  "embed": {"shape": [64, 32], "dtype": "BF16"},
  "up": {"shape": [64, 32], "dtype": "BF16"},
  "down": {"shape": [64, 32], "dtype": "BF16"}}})",
                            .model = R"({"hidden_size": 32, "vocab_size": 64,
 "num_hidden_layers": 1})"};
  for (const std::string& code : CodesOf(example)) {
    CHECK_FALSE(code.starts_with("SHD23"));
    CHECK(code != "SHD240");
  }
}

}  // namespace
}  // namespace shardc
