// Tests steps whose attention is run by an operation.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "complete.h"
#include "exec/machine/random.h"
#include "target/open.h"
#include "temporary_folder.h"
#include "verify/step/random_models.h"
#include "verify/step/step_report.h"

namespace shardc::verify {
namespace {

// Models with grouped heads, with windows and soft caps, with sinks, and with
// one KV head for each query head.
const Family kAttending[] = {
    {"builtin:llama",
     R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-5, "num_attention_heads": 16,
        "num_key_value_heads": 4})"},
    {"builtin:gemma",
     R"({"model_type": "gemma2", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-6, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 8, "sliding_window": 16,
        "query_pre_attn_scalar": 8, "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 3.0})"},
    {"builtin:gpt_oss",
     R"({"model_type": "gpt_oss", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 32, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8,
        "num_local_experts": 8, "num_experts_per_tok": 2,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"]})"},
    {"builtin:gpt2",
     R"({"model_type": "gpt2", "vocab_size": 256, "n_embd": 64, "n_layer": 2,
        "n_head": 8, "n_positions": 128, "layer_norm_epsilon": 1e-5})"},
};

constexpr std::array<std::string_view, 6> kOperations = {
    "sdpa", "flash_attn2", "blocksparse", "ulysses", "ring", "vanilla"};

// Returns a mesh with an axis of 2 or 4 devices for sequences.
Mesh SequenceMesh(exec::RandomSequence& random) {
  Mesh mesh;
  const auto add = [&](const char* name, int64_t size) {
    mesh.axes.push_back({name, size, AxisType::kAuto});
    mesh.devices *= size;
  };
  if (random.Chance(0.3)) add("dp", 2);
  if (random.Chance(0.3)) add("fsdp", 2);
  add("sp", random.Chance(0.5) ? 2 : 4);
  if (random.Chance(0.6)) add("tp", 2);
  return mesh;
}

// Compiles the family's pack with KV heads sharded over tp.
std::unique_ptr<const Compiled> CompiledWithKvHeads(const Family& family,
                                                    const Model& model,
                                                    const Mesh& mesh) {
  Findings findings;
  TemporaryFolder folder;
  const std::string file = folder.Write(
      "rules.yaml", "version: 1\nextends: [" + std::string(family.pack) +
                        "]\naxes: {kv_head: tp}\nrules: []\n");
  auto rules = OpenRules({file}, "", &model.manifest, "", findings);
  REQUIRE(rules.has_value());
  CompileOptions options;
  options.policy.illegal = IllegalPolicy::kShrink;
  auto out =
      Compile(mesh, std::move(*rules), model.manifest, options, findings);
  REQUIRE(out != nullptr);
  return out;
}

// Returns the bytes that attention sends in the forward pass of all layers, by
// collective.
std::array<int64_t, kCollectiveCount> SentByAttention(
    const StepReport& report) {
  std::array<int64_t, kCollectiveCount> out{};
  for (const StepRow& row : report.rows) {
    const bool heads = row.result.ends_with(",h]");
    if (!row.op.starts_with("attention") ||
        row.phase != step::Phase::kForward || !row.collective || !heads) {
      continue;
    }
    out[static_cast<size_t>(*row.collective)] += row.bytes * row.layers;
  }
  return out;
}

TEST_CASE("steps with an operation are the dense model's") {
  const int64_t cases =
      CasesOf("SHARDC_RANDOM_STEPS", RunsAllCases() ? 48 : 28);
  exec::RandomSequence random{exec::Random(23)};
  std::vector<Model> models;
  for (const Family& family : kAttending) {
    models.push_back(ModelOf(family));
  }
  int64_t passed = 0;
  for (int64_t i = 0; i < cases; ++i) {
    const size_t which = random.Below(std::size(kAttending));
    const Mesh mesh = SequenceMesh(random);
    const auto compiled =
        CompiledWithKvHeads(kAttending[which], models[which], mesh);
    StepRequest request;
    request.compiled = compiled.get();
    request.config = &models[which].config;
    request.mode = random.Chance(0.75) ? Mode::kTrain : Mode::kPrefill;
    request.operation =
        exec::FindOperation(kOperations[random.Below(kOperations.size())]);
    request.batch = 16;
    request.length = 64;
    REQUIRE(request.operation != nullptr);
    if (random.Chance(0.4)) {
      request.dtype = random.Chance(0.5) ? Dtype::kF32 : Dtype::kBF16;
    }
    if (random.Chance(0.3)) request.policy = step::Policy::kCost;
    request.seed = random.Below(1000);
    Findings findings;
    const auto report = VerifyStep(request, findings);
    CAPTURE(std::string(kAttending[which].pack));
    CAPTURE(MeshText(mesh));
    CAPTURE(request.operation->name);
    CAPTURE(ModeName(request.mode));
    CAPTURE(DtypeName(request.dtype));
    CAPTURE(request.seed);
    REQUIRE(report.has_value());
    std::string problems = report->reason;
    for (const std::string& problem : report->problems) {
      problems += problem + "\n";
    }
    CHECK(problems == "");
    CHECK(report->status == StepStatus::kPass);
    passed += report->status == StepStatus::kPass ? 1 : 0;
    // Outside of training caches are resharded too, which the formula does not
    // include.
    if (request.operation->global_view || request.mode != Mode::kTrain) {
      continue;
    }
    const auto formula = FormulaOf(request, mesh);
    REQUIRE(formula.has_value());
    const auto sent = SentByAttention(*report);
    for (size_t kind = 0; kind < kCollectiveCount; ++kind) {
      CAPTURE(CollectiveName(static_cast<Collective>(kind)));
      CHECK(sent[kind] ==
            report->layers * formula->Most(static_cast<Collective>(kind)));
    }
  }
  CHECK(passed == cases);
}

// With this seed the error of one device is smaller than with other seeds.
TEST_CASE("a tolerance that one input makes too small is measured on more") {
  const auto gemma = std::find_if(
      std::begin(kAttending), std::end(kAttending), [](const Family& family) {
        return std::string_view(family.pack) == "builtin:gemma";
      });
  REQUIRE(gemma != std::end(kAttending));
  const Model model = ModelOf(*gemma);
  Mesh mesh;
  mesh.axes = {{"sp", 4, AxisType::kAuto}, {"tp", 2, AxisType::kAuto}};
  mesh.devices = 8;
  const auto compiled = CompiledWithKvHeads(*gemma, model, mesh);
  StepRequest request;
  request.compiled = compiled.get();
  request.config = &model.config;
  request.mode = Mode::kTrain;
  request.operation = exec::FindOperation("flash_attn2");
  request.batch = 16;
  request.length = 64;
  request.dtype = Dtype::kF32;
  request.seed = 435;
  Findings findings;
  const auto report = VerifyStep(request, findings);
  REQUIRE(report.has_value());
  CHECK(report->status == StepStatus::kPass);
}

// Two KV heads are replicated over four devices. The two query heads of a
// device belong to one KV head, but a kernel that sees only its slices reads a
// different KV head for each.
TEST_CASE("a kernel that reads the wrong kv heads is found") {
  const Family family = {
      "builtin:llama",
      R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2,
        "rms_norm_eps": 1e-5, "num_attention_heads": 8,
        "num_key_value_heads": 2})"};
  const Model model = ModelOf(family);
  Mesh mesh;
  mesh.axes = {{"tp", 4, AxisType::kAuto}};
  mesh.devices = 4;
  const auto compiled = CompiledWithKvHeads(family, model, mesh);
  StepRequest request;
  request.compiled = compiled.get();
  request.config = &model.config;
  request.mode = Mode::kTrain;
  request.batch = 16;
  request.length = 64;
  const auto status = [&](std::string_view name) {
    request.operation = exec::FindOperation(name);
    Findings findings;
    const auto report = VerifyStep(request, findings);
    REQUIRE(report.has_value());
    return report->status;
  };
  CHECK(status("vanilla") == StepStatus::kPass);
  CHECK(status("sdpa") == StepStatus::kFail);
}

}  // namespace
}  // namespace shardc::verify
