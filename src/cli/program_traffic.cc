#include "cli/program_traffic.h"

#include <utility>

#include "cost/program.h"

namespace shardc::cli {

cost::Report CostOf(const Compiled* compiled,
                    const std::optional<ModelConfig>& model,
                    const cost::CostInputs& work, const cost::Settings& given) {
  const cost::Settings settings =
      compiled == nullptr ? given : WithLossOf(compiled->rules, given);
  std::string why = "a plan file does not describe the model";
  std::optional<cost::Communication> program;
  if (compiled != nullptr) {
    program =
        cost::StepTraffic(*compiled, model, settings).On(*compiled, work, why);
  }
  cost::Report out = cost::ReportOf(work, settings, std::move(program));
  out.communication.why_not = why;
  const bool unknown_loss = compiled == nullptr && work.mode == Mode::kTrain &&
                            settings.loss == LossKind::kStack;
  if (unknown_loss) {
    out.assumptions.emplace_back(
        "a plan file does not contain the loss of the rules: assumed to be "
        "that of the software");
  }
  if (compiled == nullptr && model && !IsGeneration(work.mode)) {
    out.assumptions.emplace_back(
        "a plan file does not contain the mask of attention: assumed to be "
        "causal");
  }
  return out;
}

}  // namespace shardc::cli
