// The ops that an optimizer appends are compared with the formulas of AdamW,
// parameter by parameter: what each op reads, its name, layer and constraint,
// and the numbers that it computes.
#include "step/build.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "dense/step.h"
#include "model/step_graph.h"
#include "source/size.h"
#include "step/described.h"
#include "step/graph_writer.h"
#include "step/program.h"
#include "step/small_models.h"

namespace shardc::step {
namespace {

// The settings differ from each other and from the usual ones, so that no
// formula can use another setting or a constant.
constexpr Adam kSettings{.rate = 3e-3,
                         .beta1 = 0.7,
                         .beta2 = 0.85,
                         .epsilon = 1e-6,
                         .decay = 0.25,
                         .clip = 0.125,
                         .step = 3};

// Returns the parts of three ranks, which get the parameters in turn.
std::vector<NormPart> PartsOf(const Graph& graph) {
  std::vector<NormPart> out(3);
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    out[i % 3].parameters.push_back(i);
  }
  return out;
}

StepModel Optimized(const Family& family, bool in_parts) {
  StepModel out = Built(family, Mode::kTrain);
  Differentiate(out.graph);
  out.graph.adam = kSettings;
  if (in_parts) {
    auto parts = PartsOf(out.graph);
    AppendOptimizer(out.graph, parts);
  } else {
    AppendOptimizer(out.graph);
  }
  return out;
}

const Op& ProducerOf(const Graph& graph, ValueId value) {
  const auto found =
      std::find_if(graph.ops.begin(), graph.ops.end(),
                   [&](const Op& op) { return op.out == value; });
  REQUIRE(found != graph.ops.end());
  return *found;
}

const Labels& LabelsOf(const Graph& graph, ValueId value) {
  return graph.values[AsIndex(value)].labels;
}

// Calls `check` with the step of every family, with each form of the optimizer.
template <typename F>
void ForEachStep(const F& check) {
  for (const Family& family : kFamilies) {
    for (const bool in_parts : {false, true}) {
      CAPTURE(family.config);
      CAPTURE(in_parts);
      const StepModel model = Optimized(family, in_parts);
      CheckForm(model.graph);
      check(model);
    }
  }
}

void CheckUpdate(const Graph& graph, size_t i, ValueId value,
                 AdamWResult result) {
  const Parameter& parameter = graph.parameters[i];
  const Op& op = ProducerOf(graph, value);
  CHECK(op.kind == OpKind::kAdamW);
  CHECK(op.name == "adamw " + parameter.role);
  CHECK(op.layer == parameter.layer);
  CHECK(op.phase == Phase::kOptimizer);
  CHECK(op.constraint == "new:" + parameter.role);
  CHECK(LabelsOf(graph, value) == LabelsOf(graph, parameter.value));
  CHECK(As<AdamWAttributes>(op).result == result);
  CHECK(As<AdamWAttributes>(op).decay ==
        (parameter.decays ? kSettings.decay : 0));
  REQUIRE(op.in.size() == 5);
  CHECK(op.in[0] == parameter.value);
  CHECK(op.in[1] == graph.gradients[i]);
  CHECK(op.in[2] == graph.moments[i].first);
  CHECK(op.in[3] == graph.moments[i].second);
  const Op& clip = ProducerOf(graph, op.in[4]);
  CHECK(clip.in == std::vector<ValueId>{graph.gradient_norm});
  CHECK(As<FnAttributes>(clip).fn == "clip");
  CHECK(As<FnAttributes>(clip).constant == kSettings.clip);
}

void CheckMoment(const Graph& graph, size_t i, ValueId moment) {
  const Op& op = ProducerOf(graph, moment);
  CHECK(op.kind == OpKind::kInput);
  CHECK(op.phase == Phase::kOptimizer);
  CHECK(op.layer == graph.parameters[i].layer);
  CHECK(LabelsOf(graph, moment) == LabelsOf(graph, graph.parameters[i].value));
}

TEST_CASE("each parameter with a gradient has one update and two moments") {
  size_t without_decay = 0, stacked = 0;
  ForEachStep([&](const StepModel& model) {
    const Graph& graph = model.graph;
    const size_t count = graph.parameters.size();
    REQUIRE(graph.gradients.size() == count);
    REQUIRE(graph.updated.size() == count);
    REQUIRE(graph.moments.size() == count);
    REQUIRE(graph.updated_moments.size() == count);
    size_t updates = 0;
    for (size_t i = 0; i < count; ++i) {
      CAPTURE(graph.parameters[i].role);
      if (graph.gradients[i] == kNoValue) {
        CHECK(graph.updated[i] == kNoValue);
        CHECK(graph.moments[i].first == kNoValue);
        CHECK(graph.moments[i].second == kNoValue);
        CHECK(graph.updated_moments[i].first == kNoValue);
        CHECK(graph.updated_moments[i].second == kNoValue);
        continue;
      }
      updates += 3;
      without_decay += graph.parameters[i].decays ? 0 : 1;
      stacked += graph.parameters[i].layer >= 0 ? 1 : 0;
      CheckUpdate(graph, i, graph.updated[i], AdamWResult::kParameter);
      CheckUpdate(graph, i, graph.updated_moments[i].first,
                  AdamWResult::kFirstMoment);
      CheckUpdate(graph, i, graph.updated_moments[i].second,
                  AdamWResult::kSecondMoment);
      CheckMoment(graph, i, graph.moments[i].first);
      CheckMoment(graph, i, graph.moments[i].second);
      CHECK(graph.moments[i].first != graph.moments[i].second);
    }
    CHECK(updates == static_cast<size_t>(std::count_if(
                         graph.ops.begin(), graph.ops.end(), [](const Op& op) {
                           return op.kind == OpKind::kAdamW;
                         })));
  });
  CHECK(without_decay > 0);
  CHECK(stacked > 0);
}

TEST_CASE("the ops of the norm belong to no layer and have its name") {
  ForEachStep([&](const StepModel& model) {
    const Graph& graph = model.graph;
    CHECK(LabelsOf(graph, graph.gradient_norm).empty());
    size_t sums = 0;
    for (const Op& op : graph.ops) {
      if (op.phase != Phase::kOptimizer || op.kind == OpKind::kAdamW ||
          op.kind == OpKind::kInput) {
        continue;
      }
      CHECK(op.name == "norm");
      CHECK(op.layer == -1);
      CHECK(op.constraint == "");
      sums += op.kind == OpKind::kEinsum ? 1 : 0;
    }
    // Each gradient is squared exactly once.
    const auto trained =
        std::count_if(graph.gradients.begin(), graph.gradients.end(),
                      [](ValueId value) { return value != kNoValue; });
    CHECK(sums == static_cast<size_t>(trained));
  });
}

// The formulas of AdamW for one element, which this test has of its own.
struct Element {
  double parameter, first, second;
};
Element Stepped(const Element& old, double gradient, double clip, bool decays) {
  const Adam& a = kSettings;
  const double g = gradient * clip;
  Element out = {};
  out.first = a.beta1 * old.first + (1 - a.beta1) * g;
  out.second = a.beta2 * old.second + (1 - a.beta2) * g * g;
  const double first = out.first / (1 - std::pow(a.beta1, 3));
  const double second = out.second / (1 - std::pow(a.beta2, 3));
  out.parameter =
      old.parameter - a.rate * (first / (std::sqrt(second) + a.epsilon) +
                                (decays ? a.decay * old.parameter : 0));
  return out;
}

TEST_CASE("a step computes the formulas of AdamW with the clipped gradients") {
  ForEachStep([&](const StepModel& model) {
    const Graph& graph = model.graph;
    const Sizes sizes = RealSizes(model, 2, 4);
    auto values = RandomInputs(graph, sizes, 7);
    dense::RunStep<double>(graph, sizes, Phase::kOptimizer, values);
    const auto data = [&](ValueId value) -> const std::vector<double>& {
      return values[AsIndex(value)].data;
    };
    double squares = 0;
    for (const ValueId gradient : graph.gradients) {
      if (gradient == kNoValue) continue;
      for (const double x : data(gradient)) squares += x * x;
    }
    const double norm = std::sqrt(squares);
    CHECK(data(graph.gradient_norm)[0] == doctest::Approx(norm).epsilon(1e-12));
    const double clip = std::min(1.0, kSettings.clip / norm);
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      const ValueId gradient = graph.gradients[i];
      if (gradient == kNoValue) continue;
      CAPTURE(graph.parameters[i].role);
      double error = 0;
      for (size_t at = 0; at < data(gradient).size(); ++at) {
        const Element old = {data(graph.parameters[i].value)[at],
                             data(graph.moments[i].first)[at],
                             data(graph.moments[i].second)[at]};
        const Element now =
            Stepped(old, data(gradient)[at], clip, graph.parameters[i].decays);
        error = std::max(
            {error, std::abs(now.parameter - data(graph.updated[i])[at]),
             std::abs(now.first - data(graph.updated_moments[i].first)[at]),
             std::abs(now.second - data(graph.updated_moments[i].second)[at])});
      }
      CHECK(error < 1e-12);
    }
  });
}

TEST_CASE("the sum of a part is that of its own parameters alone") {
  StepModel model = Built(kFamilies[0], Mode::kTrain);
  Differentiate(model.graph);
  auto parts = PartsOf(model.graph);
  parts.emplace_back();  // of a rank without parameters
  AppendOptimizer(model.graph, parts);
  const Graph& graph = model.graph;
  std::vector<ValueId> sums;
  for (const NormPart& part : parts) {
    if (part.parameters.empty()) {
      CHECK(part.sum == kNoValue);
      continue;
    }
    sums.push_back(part.sum);
    std::vector<std::pair<ValueId, ValueId>> squared, expected;
    for (const ValueId square : ProducerOf(graph, part.sum).in) {
      const Op& op = ProducerOf(graph, square);
      REQUIRE(op.in.size() == 2);
      squared.emplace_back(op.in[0], op.in[1]);
    }
    for (const size_t i : part.parameters) {
      expected.emplace_back(graph.gradients[i], graph.gradients[i]);
    }
    CHECK(squared == expected);
  }
  const Op& root = ProducerOf(graph, graph.gradient_norm);
  CHECK(As<FnAttributes>(root).fn == "sqrt");
  CHECK(ProducerOf(graph, root.in[0]).in == sums);
}

TEST_CASE("a graph without gradients stays as it is") {
  StepModel model = Built(kFamilies[0], Mode::kTrain);
  Differentiate(model.graph);
  std::fill(model.graph.gradients.begin(), model.graph.gradients.end(),
            kNoValue);
  const size_t ops = model.graph.ops.size();
  AppendOptimizer(model.graph);
  auto parts = PartsOf(model.graph);
  AppendOptimizer(model.graph, parts);
  CHECK(model.graph.ops.size() == ops);
  CHECK(model.graph.gradient_norm == kNoValue);
  CHECK(model.graph.updated.empty());
}

}  // namespace
}  // namespace shardc::step
