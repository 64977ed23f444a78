// Steps of small models under random meshes, policies and dtypes.
#include <doctest/doctest.h>

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
#include "target/open.h"
#include "temporary_folder.h"
#include "verify/step/step_report.h"

namespace shardc::verify {
namespace {

struct Family {
  const char* pack;
  const char* config;
};

const Family kFamilies[] = {
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
        "num_experts_per_tok": 2})"},
    {"builtin:gpt2",
     R"({"model_type": "gpt2", "vocab_size": 256, "n_embd": 64, "n_layer": 2,
        "n_head": 8, "n_positions": 128, "layer_norm_epsilon": 1e-5})"},
};

// Every name that keeps something else.
const char* const kRemats[] = {
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

Model ModelOf(const Family& family) {
  TemporaryFolder folder;
  const std::string path = folder.Write("config.json", family.config);
  Findings findings;
  auto config = ReadModelConfig(path, findings);
  auto manifest = families::BuildTree(path, "hf", findings);
  REQUIRE(config.has_value());
  REQUIRE(manifest.has_value());
  return {std::move(*config), std::move(*manifest)};
}

Mesh RandomMesh(exec::RandomSequence& random) {
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

TEST_CASE("random steps are the dense model's") {
  const char* const asked = std::getenv("SHARDC_RANDOM_STEPS");
  const int64_t cases = asked != nullptr ? std::atoll(asked) : 60;
  exec::RandomSequence random{exec::Random(11)}, policies{exec::Random(12)};
  std::vector<Model> models;
  for (const Family& family : kFamilies) models.push_back(ModelOf(family));
  constexpr Mode kModes[] = {Mode::kTrain, Mode::kTrain, Mode::kPrefill,
                             Mode::kDecode};
  int64_t passed = 0;
  for (int64_t i = 0; i < cases; ++i) {
    const size_t which = random.Below(std::size(kFamilies));
    const Mesh mesh = RandomMesh(random);
    Findings findings;
    auto rules = OpenRules({kFamilies[which].pack}, "", &models[which].manifest,
                           "", findings);
    REQUIRE(rules.has_value());
    CompileOptions options;
    options.policy.illegal = IllegalPolicy::kShrink;
    const auto compiled = Compile(mesh, std::move(*rules),
                                  models[which].manifest, options, findings);
    REQUIRE(compiled != nullptr);
    StepRequest request{.compiled = compiled.get(),
                        .config = &models[which].config,
                        .mode = kModes[random.Below(4)],
                        .batch = 64,
                        .length = 64};
    request.dtype = random.Chance(0.3) ? Dtype::kF32 : Dtype::kF64;
    if (random.Chance(0.2)) request.dtype = Dtype::kBF16;
    if (random.Chance(0.7)) {
      request.policy =
          random.Chance(0.5) ? step::Policy::kCost : step::Policy::kPublished;
    }
    request.keep_gathered = random.Chance(0.3);
    if (policies.Chance(0.7)) {
      std::string why;
      request.remat =
          *step::ParseRemat(kRemats[policies.Below(std::size(kRemats))], why);
    }
    request.seed = random.Below(1000);
    const auto report = VerifyStep(request, findings);
    CAPTURE(kFamilies[which].pack);
    CAPTURE(MeshText(mesh));
    CAPTURE(ModeName(request.mode));
    CAPTURE(request.remat.text);
    CAPTURE(request.seed);
    REQUIRE(report.has_value());
    CAPTURE(report->reason);
    std::string problems;
    for (const std::string& problem : report->problems) {
      problems += problem + "\n";
    }
    CHECK(problems == "");
    CHECK(report->status == StepStatus::kPass);
    passed += report->status == StepStatus::kPass ? 1 : 0;
  }
  CHECK(passed == cases);
}

}  // namespace
}  // namespace shardc::verify
