// Builds a step and lowers it to a program. The forward graph is built from the
// rules' model description. In training, the backward ops, the rematerialising
// ops and the optimizer's ops are added. Then each parameter of the graph gets
// its spec from the plan. For example, the parameter `q: [n h, d]` of layer 3
// gets the spec that the plan has for this tensor in the step's mode.
#include "plan/lowered_step.h"

#include <algorithm>
#include <utility>

#include "model/dtype.h"
#include "model/sub_axis.h"
#include "plan/step_specs.h"
#include "plan/zero.h"
#include "source/index.h"
#include "step/check_sizes.h"
#include "step/lower.h"
#include "step/optimizer.h"
#include "step/recompute.h"
#include "step/sizes.h"
#include "step/vjp.h"
#include "step/widths.h"

namespace shardc {
namespace {

constexpr int64_t kUsualLength = 4096;

// Returns the bytes of one element of a parameter in the dtype that the
// manifest states, but at least 1. Returns 0 if the manifest has no tensor for
// this parameter of the graph, or if the dtype is unknown.
int64_t StoredBytes(const Manifest& manifest, const step::Parameter& of) {
  if (of.manifest_rows.empty() || of.manifest_rows.front() < 0) return 0;
  const Tensor& tensor = manifest.tensors[AsIndex(of.manifest_rows.front())];
  const auto& dtype = manifest.TypeOf(tensor).dtype;
  return dtype ? std::max(1, DtypeBits(*dtype) / 8) : 0;
}

void SetStepWidths(const StepInputs& inputs, step::Graph& graph) {
  step::ElementWidths widths{.activations = inputs.element_bytes,
                             .cache = inputs.cache_bytes,
                             .parameters = {},
                             .gradients = inputs.gradient_bytes,
                             .trains = inputs.mode == Mode::kTrain};
  for (const step::Parameter& parameter : graph.parameters) {
    widths.parameters.push_back(
        StoredBytes(inputs.compiled->manifest, parameter));
  }
  step::SetWidths(graph, widths);
}

AxisGroup TokenAxes(const step::ShardingConstraints& constraints) {
  AxisGroup out;
  for (const std::string_view token : {"BATCH", "QUERY_LENGTH"}) {
    const auto* const at = std::find(step::kConstraintAxes.begin(),
                                     step::kConstraintAxes.end(), token);
    for (const std::string& axis :
         constraints.by_axis[AsIndex(at - step::kConstraintAxes.begin())]) {
      out.push_back(axis);
    }
  }
  return out;
}

void RefineConstraints(const Mesh& mesh, step::ShardingConstraints& of) {
  for (AxisGroup& axes : of.by_axis) axes = RefinedGroup(mesh, axes);
  of.data = RefinedGroup(mesh, of.data);
  for (step::ShardingConstraintOverride& one : of.overrides) {
    one.axes = RefinedGroup(mesh, one.axes);
  }
}

bool AccumulateAll(step::Graph& graph, int64_t micro_batches,
                   step::Reduction reduction) {
  return step::Accumulate(graph, micro_batches, reduction);
}

}  // namespace

StepInputs UsualStepInputs(const Compiled& compiled, const ModelConfig* config,
                           std::optional<int64_t> batch,
                           std::optional<int64_t> length) {
  StepInputs out;
  out.compiled = &compiled;
  out.config = config;
  out.batch = batch.value_or(2 * compiled.mesh.devices);
  out.length = length.value_or(kUsualLength);
  return out;
}

std::string_view ReductionName(step::Reduction reduction) {
  return reduction == step::Reduction::kSharded ? "sharded"
         : reduction == step::Reduction::kOnce  ? "once"
                                                : "each";
}

std::string_view StepPolicyName(step::Policy policy) {
  return policy == step::Policy::kCost ? "cost" : "published";
}

std::optional<step::StepModel> BuildStepModel(
    const StepInputs& inputs, const std::vector<int32_t>& layers,
    Findings& findings, const step::AttentionForm& form) {
  const Compiled& compiled = *inputs.compiled;
  auto model = step::BuildForward(*compiled.rules.model, inputs.config,
                                  compiled.manifest, inputs.mode, findings,
                                  layers, form, inputs.roles);
  if (!model) return std::nullopt;
  if (inputs.mode == Mode::kTrain) {
    step::Differentiate(model->graph);
    step::Recompute(model->graph, inputs.remat);
    const bool own = inputs.accumulate != nullptr;
    const auto accumulate =
        inputs.builds_one_microbatch ? step::AccumulateOne : AccumulateAll;
    if (!(own ? inputs.accumulate(model->graph)
              : accumulate(model->graph, inputs.microbatches,
                           inputs.reduction))) {
      findings.Add(code::kUsage, {}, "the loss is no mean over tokens",
                   "micro-batches share the number of all tokens");
      return std::nullopt;
    }
    if (!own) step::AppendOptimizer(model->graph);
  }
  SetStepWidths(inputs, model->graph);
  return model;
}

std::optional<LoweredStep> BuildStep(const StepInputs& inputs,
                                     const std::vector<int32_t>& layers,
                                     Findings& findings,
                                     const step::AttentionForm& form) {
  const Compiled& compiled = *inputs.compiled;
  auto model = BuildStepModel(inputs, layers, findings, form);
  if (!model) return std::nullopt;
  LoweredStep out;
  out.model = std::move(*model);
  const int64_t parts = inputs.mode == Mode::kTrain ? inputs.microbatches : 1;
  out.sizes = step::RealSizes(out.model, inputs.batch / parts, inputs.length);
  if (!step::CheckBytes(out.model.graph, out.sizes,
                        compiled.rules.model->stacks[0].repeat.place,
                        findings)) {
    return std::nullopt;
  }
  out.specs = StepSpecs(compiled.plan, out.model.graph, out.sizes, inputs.mode,
                        {}, &out.why_not);
  return out;
}

std::optional<step::Program> LowerStep(const StepInputs& inputs,
                                       const LoweredStep& of, const Mesh& mesh,
                                       std::string& why) {
  if (!of.why_not.empty()) {
    why = of.why_not;
    return std::nullopt;
  }
  return LowerStep(inputs, of.model.graph, of.sizes, of.specs, mesh, why);
}

std::optional<step::Program> LowerStep(const StepInputs& inputs,
                                       const step::Graph& graph,
                                       const step::Sizes& sizes,
                                       std::vector<Spec> specs,
                                       const Mesh& mesh, std::string& why) {
  step::LowerRequest lower{.graph = &graph,
                           .mesh = mesh,
                           .sizes = sizes,
                           .element_bytes = inputs.element_bytes,
                           .policy = inputs.policy,
                           .keep_gathered = inputs.keep_gathered,
                           .records_conflicts = inputs.records_conflicts,
                           .parameters = std::move(specs),
                           .states = {},
                           .sums = {},
                           .constraints = step::ShardingConstraintsOf(
                               *inputs.compiled->resolver, inputs.mode)};
  // The overrides in `inputs.constraints` are inserted at the front, because
  // the first of two overrides with the same role and logical axis is used.
  lower.constraints.overrides.insert(lower.constraints.overrides.begin(),
                                     inputs.constraints.begin(),
                                     inputs.constraints.end());
  RefineConstraints(mesh, lower.constraints);
  for (Spec& spec : lower.parameters) spec = RefinedSpec(mesh, spec);
  if (inputs.mode == Mode::kTrain && inputs.zero > 0) {
    ZeroSpecs zero =
        ShardOverReplicas(graph, sizes, mesh, TokenAxes(lower.constraints),
                          std::move(lower.parameters), inputs.zero);
    lower.parameters = std::move(zero.parameters);
    lower.states = std::move(zero.states);
    lower.sums = std::move(zero.sums);
  }
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
