#include "cli/program_traffic.h"

#include <utility>

#include "cost/program.h"
#include "plan/lowered_step.h"

namespace shardc::cli {

std::optional<cost::Communication> ProgramTraffic(
    const Compiled& compiled, const std::optional<ModelConfig>& model,
    const cost::CostInputs& work, const cost::Settings& settings,
    std::string& why) {
  if (compiled.rules.model == nullptr) {
    why = "no rules file has a `model:` section";
    return std::nullopt;
  }
  why = cost::AgainstProgram(work, settings);
  if (!why.empty()) return std::nullopt;
  StepInputs request;
  request.compiled = &compiled;
  request.config = model ? &*model : nullptr;
  request.mode = work.mode;
  request.batch = *settings.batch;
  request.length =
      IsGeneration(work.mode) ? *settings.kv_length : *settings.length;
  request.element_bytes = DtypeBits(settings.activations) / 8;
  request.remat = settings.remat;
  Findings findings;
  const auto step = BuildStep(request, {}, findings);
  if (!step) {
    why = findings.all().empty() ? "the model has no step program"
                                 : findings.all().front().message;
    return std::nullopt;
  }
  const auto program = LowerStep(request, *step, compiled.mesh, why);
  if (!program) return std::nullopt;
  return cost::CommunicationOf(step->model.graph, *program, step->sizes,
                               request.element_bytes);
}

cost::Report CostOf(const Compiled* compiled,
                    const std::optional<ModelConfig>& model,
                    const cost::CostInputs& work,
                    const cost::Settings& settings) {
  std::string why = "a plan file does not describe the model";
  std::optional<cost::Communication> program;
  if (compiled != nullptr) {
    program = ProgramTraffic(*compiled, model, work, settings, why);
  }
  cost::Report out = cost::ReportOf(work, settings, std::move(program));
  out.communication.why_not = why;
  return out;
}

}  // namespace shardc::cli
