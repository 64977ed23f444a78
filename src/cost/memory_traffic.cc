// Computes the bytes of memory that a step reads and writes. Serving reads
// weights and cache once. Training reads the parameters once. It reads the
// gradients and the optimizer's states once and writes them once.
//
// A serving step reads only the experts that its tokens choose. If each of T
// tokens chooses k of E experts, and all experts are chosen equally often, no
// token chooses an expert with the probability (1 - k/E)^T. For example, in
// DeepSeek-V3 a token chooses 8 of 256 experts:
//
//     1 token      8 experts of a layer are read
//    16 tokens    102
//   256 tokens    256
#include "cost/memory_traffic.h"

#include <algorithm>
#include <cmath>

#include "cost/activations.h"
#include "cost/states.h"

namespace shardc::cost {
namespace {

// Returns the parts over which the tokens are divided that are sent to the same
// experts: the devices along an axis that shards both experts and tokens send
// their tokens to each other's experts.
int64_t Senders(const CostInputs& work, const ParamClass& experts) {
  AxisGroup axes;
  const auto add = [&](const AxisGroup& owners) {
    const AxisGroup tokens = work.TokenAxes();
    for (const std::string& axis : owners) {
      const bool sends =
          std::find(tokens.begin(), tokens.end(), axis) != tokens.end();
      const bool fresh =
          std::find(axes.begin(), axes.end(), axis) == axes.end();
      if (sends && fresh) axes.push_back(axis);
    }
  };
  for (int d = 0; d < std::ssize(experts.spec); ++d) {
    if (experts.MayCountExperts(d)) add(work.KeptAt(experts, d));
  }
  if (!experts.placed_along.empty()) add({experts.placed_along});
  return work.Parts(axes);
}

// Returns the bytes of parameters on the device that reads the most.
double ParametersRead(const CostInputs& work, const Settings& settings,
                      double chosen) {
  HeldBytes experts, others;
  for (const ParamClass& param : work.params) {
    Hold(param, StatesOf(work, param, settings).parameter,
         param.role.expert ? experts : others);
  }
  return Real(others.Fullest().value_or(0)) +
         chosen * Real(experts.Fullest().value_or(0));
}

}  // namespace

std::optional<double> ChosenExperts(const CostInputs& work,
                                    const Settings& settings) {
  const ParamClass* const experts = work.Find(Role::kDown, true);
  const auto tokens = TokensOf(work, settings);
  if (work.mode == Mode::kTrain || experts == nullptr || !tokens ||
      !work.model || !work.model->experts_per_token) {
    return std::nullopt;
  }
  const double all = Real(work.Experts());
  const double share = Real(*work.model->experts_per_token) / all;
  if (!(share < 1)) return 1;
  const double sent = Real(tokens->All()) * Real(Senders(work, *experts));
  // 1 - (1 - share)^sent, without a loss of digits if the share is small.
  return -std::expm1(sent * std::log1p(-share));
}

double MemoryTrafficOf(const CostInputs& work, const Settings& settings,
                       const Memory& memory) {
  const auto of = [&](Component component) {
    return Real(memory.most.Of(component).value_or(0));
  };
  double parameters = of(Component::kParameters);
  if (const auto chosen = ChosenExperts(work, settings)) {
    parameters = std::min(parameters, ParametersRead(work, settings, *chosen));
  }
  double out = parameters + of(Component::kCache);
  if (work.mode == Mode::kTrain) {
    out +=
        2 * Real(memory.gradients.value_or(0)) + 2 * of(Component::kOptimizer);
  }
  return out;
}

}  // namespace shardc::cost
