// Translates the steps of small models of every family to programs, and runs
// both: each value of a step must be that of its program. The two runs share no
// code, and the program's ops have other definitions than the step's.
#include "emit/step_programs/translate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "dense/program/run.h"
#include "dense/step.h"
#include "parse/project.h"
#include "program/facts.h"
#include "program/read.h"
#include "source/file.h"
#include "source/json.h"
#include "source/size.h"
#include "step/build.h"
#include "step/graph_maker.h"
#include "step/graph_writer.h"
#include "step/program.h"
#include "step/small_models.h"
#include "target/choose.h"

namespace shardc::step {
namespace {

// A step with all sizes, and its program.
struct Pair {
  Described model;
  StepModel step;
  Sizes sizes;
  program::StepProgram made;
};

Pair Translate(Described model, Mode mode, bool keeps_all) {
  Pair out{std::move(model), {}, {}, {}};
  Findings findings;
  auto step = BuildForward(*out.model.description, &out.model.config,
                           out.model.manifest, mode, findings);
  CAPTURE(TextOf(findings));
  REQUIRE(step);
  out.step = std::move(*step);
  if (mode == Mode::kTrain) {
    Differentiate(out.step.graph);
    AppendOptimizer(out.step.graph);
  }
  out.sizes = RealSizes(out.step, 2, 6);
  out.made = program::ProgramOfStep({.graph = out.step.graph,
                                     .sizes = out.sizes,
                                     .manifest = out.model.manifest,
                                     .function = "step",
                                     .file = "rules.yaml",
                                     .counts_positions = mode != Mode::kDecode,
                                     .keeps_all = keeps_all});
  return out;
}

// Returns the values of both runs for the same numbers. Inputs of the program
// are drawn, and those of the step are the values that the program has of them.
void RunBoth(const Pair& of, dense::StepValues<double>& step,
             dense::ProgramRun& run) {
  const program::Program& traced = of.made.program;
  const dense::StepValues<double> drawn =
      RandomInputs(of.step.graph, of.sizes, 5);
  std::vector<dense::Array> inputs;
  std::map<program::ValueId, size_t> by_value;
  for (size_t value = 0; value < of.made.values.size(); ++value) {
    if (of.made.values[value]) by_value[*of.made.values[value]] = value;
  }
  std::mt19937_64 random(1);
  for (const program::Input& input : traced.inputs) {
    dense::Array& to =
        inputs.emplace_back(dense::Array::Zeros(traced.ShapeOf(input.value)));
    const auto known = by_value.find(input.value);
    if (known != by_value.end()) {
      to.data = drawn[known->second].data;
      continue;
    }
    // A part of a parameter or of its moments.
    const bool second = input.name.starts_with("nu/");
    for (double& x : to.data) {
      x = static_cast<double>(random() % 1000U) / 1000.0 +
          (second ? 0.001 : -0.5);
    }
  }
  run = dense::RunProgram(
      traced, inputs, [](program::ValueId) { return std::vector<double>(); });
  REQUIRE_FALSE(run.fault);
  step.resize(of.step.graph.values.size());
  for (const Op& op : of.step.graph.ops) {
    if (op.kind != OpKind::kInput) continue;
    auto& to = step[AsIndex(op.out)];
    to.shape = dense::ShapeOf(of.step.graph, of.sizes, op.out);
    // A program lacks what none of its results needs.
    const auto& made = of.made.values[AsIndex(op.out)];
    to.data = made ? run.values[*made][0].data : drawn[AsIndex(op.out)].data;
  }
  dense::RunStep<double>(of.step.graph, of.sizes, Phase::kOptimizer, step);
}

// Checks that each value of the step that its program has is the same, to
// rounding. Returns how many the program has.
size_t CheckValues(const Pair& of) {
  const auto fault = program::RunFault(of.made.program);
  CAPTURE(fault.value_or(""));
  REQUIRE_FALSE(fault);
  dense::StepValues<double> step;
  dense::ProgramRun run;
  RunBoth(of, step, run);
  size_t compared = 0;
  for (const Op& op : of.step.graph.ops) {
    CAPTURE(op.name);
    CAPTURE(op.out);
    const auto& made = of.made.values[AsIndex(op.out)];
    if (!made) continue;
    ++compared;
    const dense::Array& got = run.values[*made][0];
    const auto& want = step[AsIndex(op.out)];
    REQUIRE(got.shape == want.shape);
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < want.data.size(); ++i) {
      if (std::isfinite(want.data[i])) {
        largest = std::max(largest, std::abs(want.data[i]));
      }
      if (got.data[i] == want.data[i]) continue;
      const double off = std::abs(got.data[i] - want.data[i]);
      difference = std::max(difference, std::isnan(off) ? INFINITY : off);
    }
    if (difference > 1e-9 * std::max(largest, 1e-3)) {
      CAPTURE(printing::EnumeratorName(op.kind));
      CHECK(difference <= 1e-9 * std::max(largest, 1e-3));
      return 0;
    }
  }
  return compared;
}

TEST_CASE("each value of a family's step is that of its program") {
  for (const Family& family : kFamilies) {
    CAPTURE(family.config);
    for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
      Described model = ModelOf(family);
      if (!HasMode(*model.description, &model.config, mode)) continue;
      CAPTURE(ModeName(mode));
      const Pair all = Translate(model, mode, true);
      CHECK(CheckValues(all) == all.step.graph.ops.size());
      CHECK(CheckValues(Translate(std::move(model), mode, false)) > 40);
    }
  }
}

TEST_CASE("no product has a matrix of tokens and places of experts") {
  size_t families = 0;
  for (const Family& family : kFamilies) {
    CAPTURE(family.config);
    const Pair of = Translate(ModelOf(family), Mode::kTrain, false);
    if (of.step.graph.common.slot == kNoLabel) continue;
    ++families;
    for (const Op& op : of.step.graph.ops) {
      const auto& labels = of.step.graph.values[AsIndex(op.out)].labels;
      const auto has = [&](LabelId label) {
        return std::ranges::find(labels, label) != labels.end();
      };
      if (has(of.step.graph.common.query) && has(of.step.graph.common.slot)) {
        CHECK_FALSE(of.made.values[AsIndex(op.out)]);
      }
    }
  }
  CHECK(families > 4);
}

TEST_CASE("the shapes of a family's program follow from its operands") {
  for (const Family& family : kFamilies) {
    CAPTURE(family.config);
    const Pair of = Translate(ModelOf(family), Mode::kTrain, false);
    for (const program::Op& op : of.made.program.ops) {
      CAPTURE(program::NameOf(op));
      CHECK(op.kind != program::OpKind::kOpaque);
      CHECK(program::ShapeFault(of.made.program, op) == "");
    }
  }
}

// A step with one parameter p, whose square is the loss, in each of the layers
// 0 to `layers`. Its program has the parameter and its gradient only.
program::StepProgram OfParameter(GraphMaker& make, const Manifest& manifest,
                                 const std::vector<Parameter>& layers,
                                 const std::vector<LabelId>& labels) {
  std::vector<ValueId> losses;
  for (const Parameter& of : layers) {
    const ValueId p = make.Parameter("p", labels);
    make.graph.parameters.back() = of;
    make.graph.parameters.back().value = p;
    losses.push_back(make.Einsum(p, p, {}));
    make.graph.gradients.push_back(make.Fn("shift", {p}, labels));
  }
  make.graph.loss = make.Sum(losses, {});
  return program::ProgramOfStep({.graph = make.graph,
                                 .sizes = make.sizes,
                                 .manifest = manifest,
                                 .function = "step",
                                 .file = ""});
}

// Returns the results of the program, whose inputs are 0, 1, 2 and so on.
std::vector<std::vector<double>> ResultsOf(const program::StepProgram& of) {
  std::vector<dense::Array> inputs;
  for (const program::Input& input : of.program.inputs) {
    inputs.push_back(dense::Array::Zeros(of.program.ShapeOf(input.value)));
    for (size_t i = 0; i < inputs.back().data.size(); ++i) {
      inputs.back().data[i] =
          static_cast<double>(100 * (inputs.size() - 1) + i);
    }
  }
  const dense::ProgramRun run =
      dense::RunProgram(of.program, inputs,
                        [](program::ValueId) { return std::vector<double>(); });
  std::vector<std::vector<double>> out;
  for (const program::ValueId id : of.program.outputs) {
    out.push_back(run.values[id][0].data);
  }
  return out;
}

TEST_CASE("the tensors of experts are the rows of a parameter") {
  GraphMaker make;
  const LabelId e = make.Label("e", 2), d = make.Label("d", 3);
  ManifestBuilder manifest;
  manifest.Add("expert.0", {Shape{3}, Dtype::kBF16});
  manifest.Add("expert.1", {Shape{3}, Dtype::kBF16});
  const program::StepProgram of =
      OfParameter(make, manifest.Take(), {{.manifest_rows = {0, 1}}}, {e, d});
  REQUIRE(of.program.inputs.size() == 2);
  CHECK(of.program.inputs[1].name == "expert.1");
  CHECK(of.program.values[of.program.inputs[1].value].dtype == Dtype::kBF16);
  const auto results = ResultsOf(of);
  REQUIRE(results.size() == 3);
  CHECK(results[0] == std::vector<double>{0, 1, 2});
  CHECK(results[1] == std::vector<double>{100, 101, 102});
  CHECK(results[2] == std::vector<double>{0 + 1 + 4 + 10000 + 10201 + 10404});
}

TEST_CASE("each layer has its row of a tensor of all layers") {
  GraphMaker make;
  const LabelId d = make.Label("d", 2);
  ManifestBuilder manifest;
  manifest.Add("p", {Shape{2, 3}, Dtype::kF32});
  const Parameter layer = {.manifest_rows = {0}, .stack_dim = 1};
  const program::StepProgram of =
      OfParameter(make, manifest.Take(), {layer, layer, layer}, {d});
  REQUIRE(of.program.inputs.size() == 1);
  CHECK(of.program.ShapeOf(of.program.inputs[0].value) == Shape{2, 3});
  const auto results = ResultsOf(of);
  REQUIRE(results.size() == 2);
  CHECK(results[0] == std::vector<double>{0, 1, 2, 3, 4, 5});
  CHECK(results[1] == std::vector<double>{0 + 1 + 4 + 9 + 16 + 25});
}

TEST_CASE("a tensor keeps the order of its factors") {
  // The tensor has (j k n), and the label of the step (n j k).
  GraphMaker make;
  const LabelId n = make.Label("n", 2), j = make.Label("j", 3);
  const LabelId k = make.Label("k", 2);
  const LabelId fused = make.Label("(n j k)", 12, "", {n, j, k});
  ManifestBuilder manifest;
  manifest.Add("qkv", {Shape{12}, Dtype::kF32});
  program::StepProgram of = OfParameter(
      make, manifest.Take(), {{.manifest_rows = {0}, .leads = {2}}}, {fused});
  const auto results = ResultsOf(of);
  REQUIRE(results.size() == 2);
  CHECK(results[0] ==
        std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  of.program.outputs = {*of.values[0]};
  CHECK(ResultsOf(of)[0] ==
        std::vector<double>{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11});
}

// Returns the numbers of heads, KV heads, query heads for each of them, and
// experts that a dimension has, wherever they are in it: "experts 4, heads 6".
std::string CountedIn(const program::Facts& facts,
                      const program::FactorList& dim) {
  using enum program::FactorRole;
  std::map<std::string, int64_t> counts;
  const auto visit = [&](const program::FactorList& list,
                         const auto& again) -> void {
    for (const uint32_t index : list) {
      const program::Factor& factor = facts.factors[index];
      const bool counts_them = factor.role == kHeads ||
                               factor.role == kKvHeads ||
                               factor.role == kGroup || factor.role == kExperts;
      if (counts_them) {
        counts[std::string(program::RoleName(factor.role))] = factor.size;
      }
      for (const program::FactorList& part : factor.parts) again(part, again);
    }
  };
  visit(dim, visit);
  std::string out;
  for (const auto& [name, count] : counts) {
    out += (out.empty() ? "" : ", ") + name + " " + std::to_string(count);
  }
  return out;
}

// Returns what each parameter of a program counts, by its name.
std::map<std::string, std::string> CountsOf(const program::Program& program) {
  const program::Facts facts = program::FindFacts(program);
  std::map<std::string, std::string> out;
  for (const program::ParamFacts& param : facts.params) {
    for (const program::FactorList& dim : param.dims) {
      out[param.name] += "[" + CountedIn(facts, dim) + "]";
    }
  }
  return out;
}

TEST_CASE("the programs of sections have the heads of recorded programs") {
  const char* const root = std::getenv("SHARDC_SOURCE_ROOT");
  const std::string folder =
      std::string(root == nullptr ? "." : root) + "/testdata/torch_programs/";
  Findings findings;
  const SourceRef source = ReadSource(folder + "CONFIGS.json", findings);
  const auto configs = JsonDocument::Parse(source, findings);
  REQUIRE(configs != nullptr);
  size_t params = 0;
  for (const JsonMember member : configs->root().members()) {
    const std::string name(member.name());
    CAPTURE(name);
    const Place at = member.value.place();
    const auto document = JsonDocument::Parse(
        MakeSource("config.json", std::string(source->text().substr(
                                      at.begin, at.end - at.begin))),
        findings);
    REQUIRE(document != nullptr);
    const auto recorded = program::ReadProgram(
        ReadSource(folder + name + ".program.json.gz", findings), findings);
    REQUIRE(recorded);
    Described model;
    model.manifest = program::ManifestOf(*recorded);
    Findings of_config;
    auto config = ReadModelConfig(*document, of_config);
    const auto pack =
        PickPack(model.manifest, config ? config->model_type : "");
    if (!config || !pack) continue;
    model.config = std::move(*config);
    model.description = PackDescription(*pack, model.manifest.separator);
    if (model.description == nullptr) continue;
    const Mode mode = name.ends_with(".decode") ? Mode::kDecode : Mode::kTrain;
    const Pair of = Translate(std::move(model), mode, false);
    const auto shown = CountsOf(*recorded);
    for (const auto& [param, counted] : CountsOf(of.made.program)) {
      const auto& given_param = param;
      CAPTURE(given_param);
      // The recorded program computes the slopes of 4 heads and of 2 others.
      if (name == "bloom" && counted.find("heads 6") != std::string::npos) {
        continue;
      }
      const auto known = shown.find(param);
      REQUIRE(known != shown.end());
      CHECK(counted == known->second);
      ++params;
    }
  }
  CHECK(params > 1200);
}

}  // namespace
}  // namespace shardc::step
