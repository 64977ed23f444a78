// Checks which steps share a graph, that threads get the same graph, and that
// the communication computed with a shared graph is that of a graph built for
// the rules file alone.
#include "cost/program.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost/inputs.h"
#include "cost/models.h"
#include "source/process.h"
#include "verify/step/random_models.h"

namespace shardc::cost {
namespace {

using verify::CompiledOn;
using verify::Family;
using verify::kFamilies;
using verify::Model;
using verify::ModelOf;

const Family& Llama() { return kFamilies[0]; }

StepInputs InputsOf(const Compiled& compiled, const Model& model,
                    int64_t microbatches) {
  StepInputs out;
  out.compiled = &compiled;
  out.config = &model.config;
  out.mode = Mode::kTrain;
  out.batch = 64;
  out.length = 64;
  out.element_bytes = 2;
  out.microbatches = microbatches;
  out.builds_one_microbatch = true;
  return out;
}

step::Remat RematOf(const char* text) {
  std::string why;
  const auto out = step::ParseRemat(text, why);
  REQUIRE_MESSAGE(out.has_value(), why);
  return *out;
}

TEST_CASE("steps that differ in sizes and specs alone share a graph") {
  const Model model = ModelOf(Llama());
  const auto compiled = CompiledOn(MeshOf({{"fsdp", 2}}), Llama(), model);
  StepGraphs graphs;
  const StepInputs inputs = InputsOf(*compiled, model, 2);
  const StepGraph* const graph = &graphs.GraphOf(inputs, {}, {});
  REQUIRE(graph->why_not.empty());
  const auto is_shared = [&](const StepInputs& other) {
    return &graphs.GraphOf(other, {}, {}) == graph;
  };
  CHECK(is_shared(inputs));
  StepInputs other = inputs;
  other.microbatches = 8;
  CHECK(is_shared(other));
  other = inputs;
  other.zero = 3;
  CHECK(is_shared(other));
  other = inputs;
  other.batch = other.length = 128;
  CHECK(is_shared(other));
  const auto elsewhere =
      CompiledOn(MeshOf({{"tp", 4}, {"dp", 2}}), Llama(), model);
  other = inputs;
  other.compiled = elsewhere.get();
  CHECK(is_shared(other));
}

TEST_CASE("steps with other ops or widths have graphs of their own") {
  const Model model = ModelOf(Llama());
  const auto compiled = CompiledOn(MeshOf({{"fsdp", 2}}), Llama(), model);
  StepGraphs graphs;
  const StepInputs inputs = InputsOf(*compiled, model, 2);
  std::vector<const StepGraph*> all = {&graphs.GraphOf(inputs, {}, {})};
  const size_t ops = all[0]->model.graph.ops.size();
  const auto add = [&](const StepInputs& other, const step::LayerFold& fold,
                       const step::AttentionForm& form) {
    const StepGraph* const fresh = &graphs.GraphOf(other, fold, form);
    CHECK(fresh->why_not.empty());
    for (const StepGraph* const known : all) CHECK(fresh != known);
    all.push_back(fresh);
  };
  add(InputsOf(*compiled, model, 1), {}, {});
  StepInputs other = inputs;
  other.remat = RematOf("nothing_saveable");
  add(other, {}, {});
  other.remat = RematOf("save_only_these_names(v_proj)");
  add(other, {}, {});
  other.remat = RematOf("save_only_these_names(q_proj)");
  add(other, {}, {});
  other = inputs;
  other.reduction = step::Reduction::kEach;
  add(other, {}, {});
  other = inputs;
  other.element_bytes = 4;
  add(other, {}, {});
  other = inputs;
  other.gradient_bytes = 4;
  add(other, {}, {});
  other = inputs;
  other.mode = Mode::kPrefill;
  add(other, {}, {});
  add(inputs, {}, {.view = step::AttentionView::kLocal});
  add(inputs, {.layers = {0, 2}, .times = {2, 0, 1}}, {});
  CHECK(all.back()->model.graph.ops.size() < ops);
  // Graphs stay where they are when more of them are built.
  CHECK(&graphs.GraphOf(inputs, {}, {}) == all[0]);
  CHECK(all[0]->model.graph.ops.size() == ops);
}

TEST_CASE("the sizes of a graph follow the rows and the length") {
  const Model model = ModelOf(Llama());
  const auto compiled = CompiledOn(MeshOf({{"fsdp", 2}}), Llama(), model);
  StepGraphs graphs;
  const StepGraph& graph =
      graphs.GraphOf(InputsOf(*compiled, model, 2), {}, {});
  REQUIRE(graph.why_not.empty());
  const StepSizes& few = graphs.SizesOf(graph, 8, 64);
  const StepSizes& many = graphs.SizesOf(graph, 32, 128);
  const step::CommonLabels& labels = graph.model.graph.common;
  CHECK(few.why_not.empty());
  CHECK(few.sizes[AsIndex(labels.batch)] == 8);
  CHECK(few.sizes[AsIndex(labels.query)] == 64);
  CHECK(many.sizes[AsIndex(labels.batch)] == 32);
  CHECK(many.sizes[AsIndex(labels.query)] == 128);
  CHECK(&graphs.SizesOf(graph, 8, 64) == &few);
  // These bytes do not fit in 64 bits.
  const int64_t most = int64_t{1} << 45;
  CHECK_FALSE(graphs.SizesOf(graph, most, most).why_not.empty());
  CHECK(few.why_not.empty());
}

TEST_CASE("threads get the same graphs and sizes") {
  const Model model = ModelOf(Llama());
  const auto compiled = CompiledOn(MeshOf({{"fsdp", 2}}), Llama(), model);
  constexpr int64_t kTasks = 32;
  constexpr int64_t kGraphs = 4;
  StepGraphs graphs;
  std::vector<const StepGraph*> of(kTasks);
  std::vector<const StepSizes*> sizes(kTasks);
  std::vector<const step::Roles*> roles(kTasks);
  ParallelFor(kTasks, 4, [&](int64_t task) {
    StepInputs inputs = InputsOf(*compiled, model, 1 + task % 2);
    if (task % kGraphs >= 2) inputs.remat = RematOf("nothing_saveable");
    const auto i = static_cast<size_t>(task);
    of[i] = &graphs.GraphOf(inputs, {}, {});
    sizes[i] = &graphs.SizesOf(*of[i], 8, 64);
    roles[i] = graphs.RolesOf(*compiled, &model.config);
  });
  REQUIRE(roles[0] != nullptr);
  for (size_t i = 0; i < kTasks; ++i) {
    CAPTURE(i);
    CHECK(of[i] == of[i % kGraphs]);
    CHECK(sizes[i] == sizes[i % kGraphs]);
    CHECK(roles[i] == roles[0]);
    for (size_t j = 0; j < i % kGraphs; ++j) CHECK(of[i] != of[j]);
  }
}

// Returns the target on a mesh, with the batch over these axes.
std::unique_ptr<const Compiled> WithBatch(const Mesh& mesh, const Model& model,
                                          AxisGroup batch) {
  Findings findings;
  auto rules = OpenRules({Llama().pack}, "", &model.manifest, "", findings);
  REQUIRE(rules.has_value());
  rules->axes.Set(AxisRule::kBatch, {false, std::move(batch)});
  CompileOptions options;
  options.policy.illegal = IllegalPolicy::kShrink;
  auto out =
      Compile(mesh, std::move(*rules), model.manifest, options, findings);
  REQUIRE(out != nullptr);
  return out;
}

TEST_CASE("rules files that share graphs have the traffic of their own") {
  const Model model = ModelOf(Llama());
  const std::optional<ModelConfig> config = model.config;
  const Mesh mesh = MeshOf({{"dp", 2}, {"fsdp", 2}, {"tp", 2}});
  Settings settings;
  settings.batch = settings.length = settings.kv_length = 64;
  settings.microbatches = 4;
  const auto shared = std::make_shared<StepGraphs>();
  std::vector<int64_t> sent;
  for (const AxisGroup& batch : {AxisGroup{"dp", "fsdp"}, AxisGroup{"dp"}}) {
    const auto compiled = WithBatch(mesh, model, batch);
    const CostInputs work = MakeCostInputs(*compiled, config, Mode::kTrain);
    std::string why;
    StepTraffic own(*compiled, config, settings);
    const auto want = own.On(*compiled, work, why);
    REQUIRE_MESSAGE(want.has_value(), why);
    StepTraffic other(*compiled, config, settings, shared);
    const auto got = other.On(*compiled, work, why);
    REQUIRE_MESSAGE(got.has_value(), why);
    REQUIRE(got->transfers.size() == want->transfers.size());
    for (size_t i = 0; i < got->transfers.size(); ++i) {
      CHECK(got->transfers[i].part == want->transfers[i].part);
      CHECK(got->transfers[i].axes == want->transfers[i].axes);
      CHECK(got->transfers[i].count == want->transfers[i].count);
      CHECK(got->transfers[i].sent == want->transfers[i].sent);
    }
    sent.push_back(got->Sent());
  }
  CHECK(sent[0] != sent[1]);
}

}  // namespace
}  // namespace shardc::cost
