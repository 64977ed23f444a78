// Builds the forward graph from the rules' model description. Training adds the
// backward ops, the ops that are recomputed there and the optimizer's. Then
// each parameter of the graph gets its spec from the plan: `q: [n h, d]` of
// layer 3 gets the spec that the plan has for its name in that mode.
#include "plan/lowered_step.h"

#include <algorithm>
#include <utility>

#include "model/dtype.h"
#include "plan/step_specs.h"
#include "source/index.h"
#include "step/check_sizes.h"
#include "step/lower.h"
#include "step/optimizer.h"
#include "step/recompute.h"
#include "step/sizes.h"
#include "step/vjp.h"

namespace shardc {
namespace {

constexpr int64_t kUsualLength = 4096;

// The dtype of most of the parameters.
int64_t ElementBytes(const Manifest& manifest) {
  for (const TensorType& type : manifest.types) {
    if (type.shape && type.shape->size() > 1 && type.dtype) {
      return std::max(1, DtypeBits(*type.dtype) / 8);
    }
  }
  return 2;
}

}  // namespace

step::Policy StepPolicyOf(const StepInputs& inputs) {
  return inputs.policy.value_or(IsGeneration(inputs.mode)
                                    ? step::Policy::kCost
                                    : step::Policy::kPublished);
}

StepInputs UsualStepInputs(const Compiled& compiled, const ModelConfig* config,
                           std::optional<int64_t> batch) {
  StepInputs out;
  out.compiled = &compiled;
  out.config = config;
  out.batch = batch.value_or(2 * compiled.mesh.devices);
  out.length = kUsualLength;
  out.element_bytes = ElementBytes(compiled.manifest);
  return out;
}

std::string_view StepPolicyName(step::Policy policy) {
  return policy == step::Policy::kCost ? "cost" : "published";
}

std::optional<LoweredStep> BuildStep(const StepInputs& inputs,
                                     const std::vector<int32_t>& layers,
                                     Findings& findings,
                                     const step::AttentionForm& form) {
  const Compiled& compiled = *inputs.compiled;
  auto model = step::BuildForward(*compiled.rules.model, inputs.config,
                                  compiled.manifest, inputs.mode, findings,
                                  layers, form, inputs.roles);
  if (!model) return std::nullopt;
  if (inputs.mode == Mode::kTrain) {
    step::Differentiate(model->graph);
    step::Recompute(model->graph, inputs.remat);
    if (!step::Accumulate(model->graph, inputs.microbatches,
                          inputs.reduction)) {
      findings.Add(code::kUsage, {}, "the loss is no mean over tokens",
                   "micro-batches share the number of all tokens");
      return std::nullopt;
    }
    step::AppendOptimizer(model->graph);
  }
  LoweredStep out;
  out.model = std::move(*model);
  const int64_t parts = inputs.mode == Mode::kTrain ? inputs.microbatches : 1;
  out.sizes = step::RealSizes(out.model, inputs.batch / parts, inputs.length);
  if (!step::CheckBytes(out.model.graph, out.sizes,
                        compiled.rules.model->stacks[0].repeat.place,
                        findings)) {
    return std::nullopt;
  }
  out.specs = StepSpecs(compiled.plan, out.model.graph, inputs.mode);
  return out;
}

std::optional<step::Program> LowerStep(const StepInputs& inputs,
                                       const LoweredStep& of, const Mesh& mesh,
                                       std::string& why) {
  step::LowerRequest lower{.graph = &of.model.graph,
                           .mesh = mesh,
                           .sizes = of.sizes,
                           .element_bytes = inputs.element_bytes,
                           .policy = StepPolicyOf(inputs),
                           .keep_gathered = inputs.keep_gathered,
                           .parameters = of.specs,
                           .constraints = step::ShardingConstraintsOf(
                               *inputs.compiled->resolver, inputs.mode)};
  // The first constraint with a role and a logical axis is taken.
  lower.constraints.overrides.insert(lower.constraints.overrides.begin(),
                                     inputs.constraints.begin(),
                                     inputs.constraints.end());
  step::Unsupported unsupported;
  auto program = step::Lower(lower, unsupported);
  if (!program) {
    why = (unsupported.op.empty() ? "" : unsupported.op + ": ") +
          unsupported.message;
  }
  return program;
}

std::string StepPartName(const step::Graph& graph, const step::Op& op) {
  if (op.phase == step::Phase::kOptimizer) return "optimizer";
  if (op.layer < 0) return "model";
  if (IsEncoderLayer(op.layer, graph.encoder_layer)) {
    return "encoder " + std::to_string(op.layer - graph.encoder_layer);
  }
  return "layer " + std::to_string(op.layer);
}

std::string StepOpName(const step::Op& op) {
  return op.name.empty() ? "op" : op.name;
}

std::string StepLabelsText(const step::Graph& graph, step::ValueId value) {
  std::string out = "[";
  for (step::LabelId label : graph.values[AsIndex(value)].labels) {
    if (out.size() > 1) out += ',';
    const std::string& name = graph.labels[AsIndex(label)].name;
    out += name;
  }
  return out + "]";
}

}  // namespace shardc
