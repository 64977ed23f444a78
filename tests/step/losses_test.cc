// Compares the losses that are added to the cross-entropy with formulas for the
// router's and the head's logits.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dense/step.h"
#include "doctest/doctest.h"
#include "model/model_description.h"
#include "source/size.h"
#include "step/accumulate.h"
#include "step/derivatives.h"
#include "step/described.h"
#include "step/graph_writer.h"
#include "step/program.h"

namespace shardc::step {
namespace {

constexpr int64_t kExperts = 4, kChosen = 2;

std::string Mixtral(const std::string& more) {
  return R"({"model_type": "mixtral", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 3, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2)" +
         more + "}";
}

StepModel Built(const std::string& more) {
  const Described model = FromConfig(Mixtral(more), "hf", "mixtral");
  Findings findings;
  auto step = BuildForward(*model.description, &model.config, model.manifest,
                           Mode::kTrain, findings);
  CAPTURE(TextOf(findings));
  REQUIRE(step);
  return std::move(*step);
}

// Computes the loss of transformers' load_balancing_loss_func: over the tokens
// of all layers together, each expert's share of choices times its mean
// probability.
double Balance(const Graph& graph, const dense::StepValues<double>& values) {
  std::vector<double> share(kExperts, 0), mean(kExperts, 0);
  double tokens = 0;
  for (const Op& op : graph.ops) {
    if (op.constraint != "router" || op.phase != Phase::kForward) continue;
    const std::vector<double>& logits = values[AsIndex(op.out)].data;
    for (size_t row = 0; row < logits.size(); row += kExperts) {
      std::vector<double> p(
          logits.begin() + static_cast<std::ptrdiff_t>(row),
          logits.begin() + static_cast<std::ptrdiff_t>(row + kExperts));
      const double most = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (double& x : p) sum += x = std::exp(x - most);
      std::vector<double> sorted = p;
      std::sort(sorted.rbegin(), sorted.rend());
      for (size_t e = 0; e < p.size(); ++e) {
        mean[e] += p[e] / sum;
        share[e] += p[e] >= sorted[AsIndex(kChosen - 1)] ? 1 : 0;
      }
      ++tokens;
    }
  }
  double out = 0;
  for (size_t e = 0; e < share.size(); ++e) {
    out += share[e] / tokens * mean[e] / tokens;
  }
  return out * static_cast<double>(kExperts);
}

double LossOf(const StepModel& step, dense::StepValues<double>& values,
              const Sizes& sizes) {
  dense::RunStep(step.graph, sizes, Phase::kForward, values);
  return values[AsIndex(step.graph.loss)].data[0];
}

TEST_CASE("a loss that balances experts, where the config has it") {
  const StepModel plain = Built(R"(, "router_aux_loss_coef": 0.5)");
  const StepModel model =
      Built(R"(, "router_aux_loss_coef": 0.5, "output_router_logits": true)");
  const Sizes sizes = RealSizes(model, 3, 6);
  auto a = RandomInputs(plain.graph, sizes, 4);
  auto b = RandomInputs(model.graph, sizes, 4);
  const double without = LossOf(plain, a, sizes);
  const double with = LossOf(model, b, sizes);
  const double balance = Balance(model.graph, b);
  CHECK(balance > 1);
  CHECK(std::abs(with - without - 0.5 * balance) < 1e-13);
}

double SquaredLogSum(const double* logits, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(logits[i]);
  return std::log(sum) * std::log(sum);
}

TEST_CASE("z-losses of the router and of the head, where the rules have them") {
  const Described model = FromConfig(
      Mixtral(R"(, "head_z": 0.25, "router_z": 0.5)"), "hf", "mixtral");
  ModelDescription rules = *model.description;
  rules.settings["z_loss"].text = "head_z";
  rules.settings["router.z_loss"].text = "router_z";
  double losses[2] = {0, 0};
  StepModel step;
  dense::StepValues<double> values;
  Sizes sizes;
  for (const bool with : {false, true}) {
    Findings findings;
    auto built = BuildForward(with ? rules : *model.description, &model.config,
                              model.manifest, Mode::kTrain, findings);
    CAPTURE(TextOf(findings));
    REQUIRE(built);
    step = std::move(*built);
    sizes = RealSizes(step, 2, 6);
    values = RandomInputs(step.graph, sizes, 8);
    losses[with ? 1 : 0] = LossOf(step, values, sizes);
  }
  double router = 0, head = 0, rows = 0, weight = 0;
  for (const Op& op : step.graph.ops) {
    if (op.constraint != "router" || op.phase != Phase::kForward) continue;
    const std::vector<double>& logits = values[AsIndex(op.out)].data;
    for (size_t row = 0; row < logits.size(); row += kExperts) {
      router += SquaredLogSum(&logits[row], kExperts);
      ++rows;
    }
  }
  const std::vector<double>& logits = values[AsIndex(step.graph.logits)].data;
  for (const Data& data : step.graph.data) {
    if (data.kind != DataKind::kWeights) continue;
    const std::vector<double>& weights = values[AsIndex(data.value)].data;
    for (size_t i = 0; i < weights.size(); ++i) {
      head += weights[i] * SquaredLogSum(&logits[i * 11], 11);
      weight += weights[i];
    }
  }
  const double want = 0.5 * router / rows + 0.25 * head / weight;
  CHECK(std::abs(losses[1] - losses[0] - want) < 1e-12 * want);
  Differentiate(step.graph);
  values = RandomInputs(step.graph, sizes, 8);
  CHECK(dense::ComplexStepError(step.graph, sizes, values, 1) < 1e-11);
}

TEST_CASE("its gradients are derivatives, in micro-batches too") {
  StepModel step =
      Built(R"(, "router_aux_loss_coef": 0.5, "output_router_logits": true)");
  Differentiate(step.graph);
  const Sizes sizes = RealSizes(step, 2, 6);
  CHECK(dense::ComplexStepError(step.graph, sizes,
                                RandomInputs(step.graph, sizes, 2), 1) < 1e-11);
  REQUIRE(Accumulate(step.graph, 3, Reduction::kOnce));
  auto values = RandomInputs(step.graph, sizes, 2);
  CHECK(dense::ComplexStepError(step.graph, sizes, values, 1) < 1e-11);
}

}  // namespace
}  // namespace shardc::step
