// The rules' description makes the forward graph; training adds the backward
// ops, what they compute anew and the optimizer's, and then every parameter has
// its spec from the plan: `q: [n h, d]` of layer 3 has what the plan says of
// its name in that mode.
#include "verify/step/lowered_step.h"

#include <utility>

#include "plan/step_specs.h"
#include "step/lower.h"
#include "step/optimizer.h"
#include "step/recompute.h"
#include "step/vjp.h"
#include "verify/step/step_operation.h"

namespace shardc::verify {

step::Policy PolicyOf(const StepRequest& request) {
  return request.policy.value_or(IsGeneration(request.mode)
                                     ? step::Policy::kCost
                                     : step::Policy::kPublished);
}

std::string_view PolicyName(step::Policy policy) {
  return policy == step::Policy::kCost ? "cost" : "published";
}

std::optional<LoweredStep> BuildStep(const StepRequest& request,
                                     const std::vector<int32_t>& layers,
                                     Findings& findings,
                                     const step::AttentionForm& form) {
  const Compiled& compiled = *request.compiled;
  auto model = step::BuildForward(*compiled.rules.model, request.config,
                                  compiled.manifest, request.mode, findings,
                                  layers, form);
  if (!model) return std::nullopt;
  if (request.mode == Mode::kTrain) {
    step::Differentiate(model->graph);
    step::Recompute(model->graph, request.remat);
    if (!step::Accumulate(model->graph, request.microbatches,
                          request.reduction)) {
      findings.Add(code::kUsage, {}, "the loss is no mean over tokens",
                   "micro-batches share the number of all tokens");
      return std::nullopt;
    }
    step::AppendOptimizer(model->graph);
  }
  LoweredStep out;
  out.model = std::move(*model);
  const int64_t parts = request.mode == Mode::kTrain ? request.microbatches : 1;
  out.sizes = step::RealSizes(out.model, request.batch / parts, request.length);
  out.specs = StepSpecs(compiled.plan, out.model.graph, request.mode);
  return out;
}

std::optional<step::Program> LowerStep(const StepRequest& request,
                                       const LoweredStep& of, const Mesh& mesh,
                                       std::string& why) {
  step::AnchorAxes anchors =
      step::AnchorAxesOf(*request.compiled->resolver, request.mode);
  if (request.operation != nullptr) AddOverrides(*request.operation, anchors);
  const step::LowerRequest lower{.graph = &of.model.graph,
                                 .mesh = mesh,
                                 .sizes = of.sizes,
                                 .element_bytes = request.element_bytes,
                                 .policy = PolicyOf(request),
                                 .keep_gathered = request.keep_gathered,
                                 .parameters = of.specs,
                                 .anchors = std::move(anchors)};
  step::Unsupported unsupported;
  auto program = step::Lower(lower, unsupported);
  if (!program) {
    why = (unsupported.op.empty() ? "" : unsupported.op + ": ") +
          unsupported.message;
  }
  return program;
}

std::string PartOf(const step::Op& op) {
  if (op.phase == step::Phase::kOptimizer) return "optimizer";
  if (op.layer >= 0) return "layer " + std::to_string(op.layer);
  return "model";
}

std::string StepOpName(const step::Op& op) {
  return op.name.empty() ? "op" : op.name;
}

std::string LabelsText(const step::Graph& graph, step::ValueId value) {
  std::string out = "[";
  for (step::LabelId label : graph.values[static_cast<size_t>(value)].labels) {
    if (out.size() > 1) out += ',';
    const std::string& name = graph.labels[static_cast<size_t>(label)].name;
    out += name;
  }
  return out + "]";
}

}  // namespace shardc::verify
