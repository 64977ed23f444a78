#include "step/program.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "source/size.h"
#include "step/build.h"
#include "step/described.h"
#include "step/graph_writer.h"

namespace shardc::step {
namespace {

constexpr const char* kLlama =
    R"({"model_type": "llama", "vocab_size": 16, "hidden_size": 16,
        "intermediate_size": 32, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2})";

StepModel Forward(Mode mode) {
  const Described model = FromConfig(kLlama, "hf", "llama");
  Findings findings;
  auto step = BuildForward(*model.description, &model.config, model.manifest,
                           mode, findings);
  REQUIRE(step);
  return std::move(*step);
}

StepModel Trained() {
  StepModel step = Forward(Mode::kTrain);
  Differentiate(step.graph);
  AppendOptimizer(step.graph);
  return step;
}

uint8_t BytesOf(const Graph& graph, ValueId value) {
  return graph.values[AsIndex(value)].bytes;
}

TEST_CASE("wide parameters are gathered narrow and reduced wide") {
  StepModel step = Trained();
  Graph& graph = step.graph;
  ElementWidths widths{.trains = true};
  widths.parameters.assign(graph.parameters.size(), 4);
  SetWidths(graph, widths);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    CAPTURE(graph.parameters[i].role);
    CHECK(BytesOf(graph, graph.parameters[i].value) == 2);
    CHECK(BytesOf(graph, graph.gradients[i]) == 4);
    CHECK(BytesOf(graph, graph.updated[i]) == 4);
  }
  // Value::bytes is 0 for values with the element size of activations.
  CHECK(BytesOf(graph, graph.logits) == 0);
  CHECK(BytesOf(graph, graph.loss) == 0);
}

TEST_CASE("gradients have the dtype that they are given") {
  StepModel step = Trained();
  ElementWidths widths{.gradients = 4, .trains = true};
  widths.parameters.assign(step.graph.parameters.size(), 2);
  SetWidths(step.graph, widths);
  const auto gradient = FindGradientValues(step.graph);
  size_t found = 0;
  for (size_t v = 0; v < gradient.size(); ++v) {
    if (gradient[v] == 0) continue;
    ++found;
    CHECK(step.graph.values[v].bytes == 4);
  }
  CHECK(found >= step.graph.parameters.size());
}

TEST_CASE(
    "serving gathers weights as they are stored, several widths in one "
    "tree") {
  StepModel step = Forward(Mode::kDecode);
  Graph& graph = step.graph;
  ElementWidths widths{.cache = 4};
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    widths.parameters.push_back(i % 2 == 0 ? 1 : 2);
  }
  SetWidths(graph, widths);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    CHECK(BytesOf(graph, graph.parameters[i].value) == widths.parameters[i]);
  }
  REQUIRE(!graph.caches.empty());
  for (const Cache& cache : graph.caches) {
    CHECK(BytesOf(graph, cache.before) == 4);
    CHECK(BytesOf(graph, cache.after) == 4);
  }
}

TEST_CASE("quantised weights have no gradients") {
  CHECK(IsTrained(Dtype::kBF16));
  CHECK(IsTrained(Dtype::kF16));
  CHECK(IsTrained(Dtype::kF32));
  CHECK(!IsTrained(Dtype::kF8E4M3));
  CHECK(!IsTrained(Dtype::kI8));
  CHECK(!IsTrained(Dtype::kU8));
  StepModel step = Forward(Mode::kTrain);
  Graph& graph = step.graph;
  std::set<std::string> frozen = {"q", "down"};
  for (Parameter& parameter : graph.parameters) {
    parameter.trained = !frozen.contains(parameter.role);
  }
  Differentiate(graph);
  AppendOptimizer(graph);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    CAPTURE(graph.parameters[i].role);
    CHECK((graph.gradients[i] >= 0) == graph.parameters[i].trained);
    CHECK((graph.updated[i] >= 0) == graph.parameters[i].trained);
  }
}

}  // namespace
}  // namespace shardc::step
