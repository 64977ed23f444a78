// Checks that many layers and micro-batches cost no more work than few.
// Compares a step with a few layers of each run of identical layers and a
// single micro-batch with the step of all layers and micro-batches, and a
// tree's representatives with the tree. Work is measured by the number of
// lowered ops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cost/fit.h"
#include "cost/models.h"
#include "cost/program.h"
#include "verify/step/random_models.h"

namespace shardc::cost {
namespace {

using verify::CasesOf;
using verify::CompiledOn;
using verify::Family;
using verify::kFamilies;
using verify::Model;

// Returns the model of a family with this number of layers in each stack.
Model WithLayers(const Family& family, int64_t layers) {
  static const std::regex kLayers(
      R"re("(num_hidden_layers|n_layers?|num_layers|num_decoder_layers|encoder_layers|decoder_layers)": \d+)re");
  const std::string config = std::regex_replace(
      std::string(family.config), kLayers, "\"$1\": " + std::to_string(layers));
  return verify::ModelOf({family.pack, config.c_str()});
}

Dtype WidthOf(const Model& model) {
  for (const TensorType& type : model.manifest.types) {
    if (type.dtype) return *type.dtype;
  }
  return Dtype::kBF16;
}

Settings UsualSettings(const Model& model) {
  Settings out;
  out.batch = out.length = out.kv_length = 64;
  out.activations = out.cache = WidthOf(model);
  return out;
}

using Row =
    std::tuple<std::string, bool, Collective, AxisGroup, int64_t, int64_t>;
std::vector<Row> RowsOf(const Communication& of) {
  std::vector<Row> out;
  for (const Transfer& one : of.transfers) {
    out.emplace_back(std::string(one.part), one.backward, one.kind, one.axes,
                     one.count, one.sent);
  }
  return out;
}

// Returns the communication of the program with every layer and micro-batch.
Communication OfWholeStep(const Compiled& compiled, const Model& model,
                          Mode mode, const Settings& settings) {
  StepInputs inputs;
  inputs.compiled = &compiled;
  inputs.config = &model.config;
  inputs.mode = mode;
  inputs.batch = *settings.batch;
  inputs.length = *settings.length;
  inputs.element_bytes = DtypeBits(settings.activations) / 8;
  inputs.remat = settings.remat;
  if (mode == Mode::kTrain) {
    inputs.zero = settings.zero;
    inputs.microbatches = settings.microbatches;
    inputs.reduction = settings.reduction;
  }
  Findings findings;
  const auto step = BuildStep(inputs, {}, findings);
  REQUIRE(step.has_value());
  std::string why;
  const auto program = LowerStep(inputs, *step, compiled.mesh, why);
  REQUIRE_MESSAGE(program.has_value(), why);
  return CommunicationOf(step->model.graph, *program, step->sizes,
                         inputs.element_bytes);
}

TEST_CASE("a folded step sends the bytes of all layers and micro-batches") {
  const int64_t cases = CasesOf("SHARDC_RANDOM_FOLDS", 60);
  exec::RandomSequence random{exec::Random(29)};
  int64_t folded = 0, lowered = 0;
  for (int64_t i = 0; i < cases; ++i) {
    const Family& family = kFamilies[random.Below(std::size(kFamilies))];
    const Model model = WithLayers(family, 10 + 2 * random.Below(4));
    const Mesh mesh = verify::RandomMesh(random);
    const auto compiled = CompiledOn(mesh, family, model);
    constexpr Mode kModes[] = {Mode::kTrain, Mode::kTrain, Mode::kPrefill,
                               Mode::kDecode};
    const Mode mode = verify::ModeOr(kModes[random.Below(4)], *compiled, model);
    Settings settings = UsualSettings(model);
    if (random.Chance(0.5)) settings.remat = verify::RandomRemat(random);
    constexpr step::Reduction kReductions[] = {step::Reduction::kSharded,
                                               step::Reduction::kOnce,
                                               step::Reduction::kEach};
    if (random.Chance(0.7)) {
      settings.microbatches = int64_t{2} << random.Below(2);
      settings.batch = 64 * settings.microbatches;
    }
    settings.zero = static_cast<int>(random.Below(4));
    settings.reduction = kReductions[random.Below(3)];
    const CostInputs work = MakeCostInputs(*compiled, model.config, mode);
    CAPTURE(family.pack);
    CAPTURE(MeshText(mesh));
    CAPTURE(ModeName(mode));
    CAPTURE(settings.remat.text);
    CAPTURE(settings.microbatches);
    CAPTURE(settings.zero);
    CAPTURE(ReductionName(settings.reduction));
    const std::optional<ModelConfig> config = model.config;
    StepTraffic traffic(*compiled, config, settings);
    std::string why;
    const auto read = traffic.On(*compiled, work, why);
    // Experts whose tokens are sharded over sp have formulas.
    if (!AgainstProgram(work, settings).empty()) {
      CHECK_FALSE(read.has_value());
      continue;
    }
    ++lowered;
    REQUIRE_MESSAGE(read.has_value(), why);
    const int64_t once = traffic.lowered_ops();
    CHECK(RowsOf(*read) ==
          RowsOf(OfWholeStep(*compiled, model, mode, settings)));
    // For a second mesh the same number of ops is lowered again, unless all
    // layers had to be lowered for the first.
    CHECK(traffic.On(*compiled, work, why).has_value());
    folded += traffic.lowered_ops() == 2 * once ? 1 : 0;
  }
  MESSAGE(folded << " of " << lowered << " steps folded");
  CHECK(lowered > cases / 2);
  CHECK(folded > lowered / 2);
}

// Returns the number of ops that are lowered for one mesh.
int64_t LoweredOps(const Family& family, int64_t layers, Mode mode) {
  const Model model = WithLayers(family, layers);
  const auto compiled =
      CompiledOn(MeshOf({{"fsdp", 2}, {"tp", 2}}), family, model);
  const Settings settings = UsualSettings(model);
  const std::optional<ModelConfig> config = model.config;
  StepTraffic traffic(*compiled, config, settings);
  std::string why;
  const CostInputs work = MakeCostInputs(*compiled, config, mode);
  REQUIRE_MESSAGE(traffic.On(*compiled, work, why).has_value(), why);
  return traffic.lowered_ops();
}

TEST_CASE("identical layers add no ops to lower") {
  // Llama, Mixtral with router losses, GPT-2, and Llama 4 with a period of
  // four.
  for (const size_t which : {0, 2, 3, 4}) {
    const Family& family = kFamilies[which];
    CAPTURE(family.pack);
    for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
      CAPTURE(ModeName(mode));
      const int64_t few = LoweredOps(family, 24, mode);
      CHECK(few > 0);
      CHECK(LoweredOps(family, 48, mode) == few);
    }
  }
}

TEST_CASE("meshes are evaluated by representatives as by the whole tree") {
  const int64_t cases = CasesOf("SHARDC_RANDOM_FITS", 16);
  int64_t over_experts = 0;
  exec::RandomSequence random{exec::Random(31)};
  for (int64_t i = 0; i < cases; ++i) {
    const Family& family = kFamilies[random.Below(std::size(kFamilies))];
    const Model model = WithLayers(family, 12);
    Findings findings;
    FitInputs inputs;
    auto rules = OpenRules({family.pack}, "", &model.manifest, "", findings);
    REQUIRE(rules.has_value());
    inputs.rules = std::move(*rules);
    inputs.manifest = model.manifest;
    inputs.options.modes = {Mode::kTrain};
    inputs.options.policy.illegal = IllegalPolicy::kShrink;
    inputs.model = model.config;
    inputs.settings = UsualSettings(model);
    const std::vector<std::string> axes = {"dp", "fsdp", "ep", "sp", "tp"};
    const auto evaluator = MeshEvaluator::Make(inputs, axes, findings);
    REQUIRE(evaluator != nullptr);
    for (int64_t of_mesh = 0; of_mesh < 4; ++of_mesh) {
      const Mesh mesh = verify::RandomMesh(random);
      CAPTURE(family.pack);
      CAPTURE(MeshText(mesh));
      const auto fit = evaluator->On(mesh, findings);
      REQUIRE(fit.has_value());
      RuleSet own = inputs.rules;
      if (!fit->batch.empty()) {
        own.axes.Set(AxisRule::kBatch, {false, fit->batch});
        ++over_experts;
      }
      const auto compiled = Compile(mesh, std::move(own), model.manifest,
                                    inputs.options, findings);
      REQUIRE(compiled != nullptr);
      const CostInputs work =
          MakeCostInputs(*compiled, model.config, Mode::kTrain);
      if (!fit->legal) continue;
      const Report report = ReportOf(
          work, inputs.settings,
          AgainstProgram(work, inputs.settings).empty()
              ? OfWholeStep(*compiled, model, Mode::kTrain, inputs.settings)
              : CommunicationOf(work, inputs.settings));
      CHECK(fit->memory.most.total == report.memory.most.total);
      CHECK(fit->memory.least.total == report.memory.least.total);
      CHECK(fit->communication == report.communication.Sent());
    }
  }
  MESSAGE(over_experts << " meshes with the batch over the experts' axis");
}

TEST_CASE("the graph of a fit does not grow with the layers") {
  const auto lowered = [](int64_t layers) {
    const Model model = WithLayers(kFamilies[0], layers);
    Findings findings;
    FitInputs inputs;
    auto rules =
        OpenRules({kFamilies[0].pack}, "", &model.manifest, "", findings);
    REQUIRE(rules.has_value());
    inputs.rules = std::move(*rules);
    inputs.manifest = model.manifest;
    inputs.options.modes = {Mode::kTrain};
    inputs.model = model.config;
    inputs.settings = UsualSettings(model);
    const auto evaluator =
        MeshEvaluator::Make(inputs, {"fsdp", "tp"}, findings);
    REQUIRE(evaluator != nullptr);
    for (const int64_t tp : {1, 2, 4}) {
      CHECK(evaluator->On(MeshOf({{"fsdp", 2}, {"tp", tp}}), findings)
                .has_value());
    }
    return evaluator->lowered_ops();
  };
  CHECK(lowered(8) > 0);
  CHECK(lowered(8) == lowered(128));
}

}  // namespace
}  // namespace shardc::cost
