// Builds a step and lowers it to a program. The forward graph is built from the
// rules' model description. In training, the backward ops, the rematerialising
// ops and the optimizer's ops are added. Then each parameter of the graph gets
// its spec from the plan. For example, the parameter `q: [n h, d]` of layer 3
// gets the spec that the plan has for this tensor in the step's mode.
#include "plan/lowered_step.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/dtype.h"
#include "model/mesh_layout.h"
#include "plan/axis_facts.h"
#include "plan/compile.h"
#include "plan/read.h"
#include "source/size.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/lower.h"
#include "step/program.h"
#include "step/recompute.h"
#include "step/validate.h"

namespace shardc {
namespace {

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
  return step::kReductionNames[static_cast<size_t>(reduction)];
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
                               FigureResolver(*inputs.compiled), inputs.mode)};
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

// Shards optimizer states over replicas. The axes over which a parameter is
// replicated are appended to the spec of its states. For example, q [4096,
// 4096] has the spec [tp, fsdp] on dp 4, fsdp 8, tp 2. A device holds [2048,
// 512] of q, and in ZeRO stage 1 the states have the spec [[tp, dp], fsdp].

namespace {

// Appends to one dimension of the spec those axes of `tokens` that the spec
// does not use, and returns the result. `tokens` are the mesh axes over which
// batch and sequence are sharded, and their sizes must be above 1. Axes that
// divide no dimension are left out.
Spec Extended(Spec spec, const std::vector<int64_t>& shape, const Mesh& mesh,
              const AxisGroup& tokens) {
  AxisGroup replicas;
  for (const std::string& axis : tokens) {
    if (!UsesAxis(spec, axis)) replicas.push_back(axis);
  }
  spec.resize(std::max(spec.size(), shape.size()));
  std::vector<int64_t> local;
  for (size_t d = 0; d < shape.size(); ++d) {
    local.push_back(shape[d] / mesh.Parts(spec[d]).value_or(1));
  }
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return local[a] > local[b]; });
  for (; !replicas.empty(); replicas.pop_back()) {
    const int64_t parts = mesh.Parts(replicas).value_or(1);
    for (const size_t d : order) {
      if (local[d] % parts != 0) continue;
      spec[d].insert(spec[d].end(), replicas.begin(), replicas.end());
      return spec;
    }
  }
  return spec;
}

}  // namespace

ZeroSpecs ShardOverReplicas(const step::Graph& graph, const step::Sizes& sizes,
                            const Mesh& mesh, const AxisGroup& tokens,
                            std::vector<Spec> specs, int stage) {
  ZeroSpecs out;
  AxisGroup replicas;
  for (const std::string& axis : tokens) {
    if (mesh.SizeOf(axis) > 1) replicas.push_back(axis);
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const step::Value& value = graph.values[AsIndex(graph.parameters[i].value)];
    std::vector<int64_t> shape;
    for (const step::LabelId label : value.labels) {
      shape.push_back(sizes[AsIndex(label)]);
    }
    out.states.push_back(Extended(specs[i], shape, mesh, replicas));
  }
  if (stage >= 2) out.sums = out.states;
  out.parameters = stage >= 3 ? out.states : std::move(specs);
  return out;
}

// Finds the specs of a step's parameters in the plan. For example, the weights
// of 8 experts with the spec [null, tp], placed along ep, are one parameter:
//
//   [experts, inner, width]  ->  [ep, null, tp]

namespace {

// Removes from the spec the dimension that counts scanned layers. If a mesh
// axis shards that dimension, sets `why` unless it is null.
void RemoveStack(const Mesh& mesh, const step::Parameter& parameter, Spec& spec,
                 std::string* why) {
  const auto dim = AsIndex(parameter.stack_dim);
  if (dim >= spec.size()) return;
  const AxisGroup axes = spec[dim];
  spec.erase(spec.begin() + parameter.stack_dim);
  if (mesh.Parts(axes).value_or(1) == 1 || why == nullptr) return;
  *why = parameter.role + ": " + GroupText(axes) +
         " shards the dimension that counts scanned layers, so that no device "
         "has a part of every layer";
}

// Returns whether the step divides each of the parts of a dimension: they are
// equal, and the dimension's label has the factor that is sharded before the
// one that counts the parts, as LabelTable::Of() writes it.
bool DividesParts(const step::Graph& graph, const step::Sizes& sizes,
                  step::LabelId label, const PartsOfDim& parts) {
  const auto& factors = graph.labels[AsIndex(label)].factors;
  return parts.sizes.empty() && factors.size() > 1 &&
         !graph.labels[AsIndex(factors[0])].semantic.empty() &&
         sizes[AsIndex(factors[1])] == parts.count;
}

// Sets `why` if the plan divides several parts of a dimension that the step
// divides as one. `parts` are those of the parameter's tensor.
void CheckParts(const step::Graph& graph, const step::Sizes& sizes,
                const step::Parameter& parameter, const DimParts& parts,
                std::string* why) {
  const auto& labels = graph.values[AsIndex(parameter.value)].labels;
  // Stacked tensors have a dimension before those of one tensor, and scanned
  // layers have one of which the step has no label.
  size_t at = parameter.manifest_rows.size() > 1 ? 1 : 0;
  for (size_t dim = 0; dim < parts.size(); ++dim) {
    if (parameter.stack_dim == static_cast<int>(dim)) continue;
    if (parts[dim].several() &&
        (at >= labels.size() ||
         !DividesParts(graph, sizes, labels[at], parts[dim]))) {
      const std::string of_dim = "dimension " + std::to_string(dim);
      *why = parameter.role + ": the plan divides each of ";
      if (parts[dim].sizes.empty()) {
        *why += std::to_string(parts[dim].count) + " parts of " + of_dim +
                " (`parts`), and the step divides the dimension as one; write "
                "`fused: by_part` in the `model:` section";
      } else {
        *why += "the parts " + PartsText(parts[dim]) + " of " + of_dim +
                ", and a step divides equal parts only; store the parts as "
                "separate parameters";
      }
      return;
    }
    ++at;
  }
}

}  // namespace

std::vector<Spec> StepSpecs(const Plan& plan, const step::Graph& graph,
                            const step::Sizes& sizes, Mode mode,
                            std::span<const uint32_t> representatives,
                            std::string* why) {
  std::vector<Spec> out;
  out.reserve(graph.parameters.size());
  for (const step::Parameter& parameter : graph.parameters) {
    Spec& spec = out.emplace_back();
    if (parameter.manifest_rows.empty()) continue;
    const auto tensor = AsIndex(parameter.manifest_rows.front());
    const size_t row =
        representatives.empty() ? tensor : representatives[tensor];
    const ParamLayout& layout = plan.layouts[plan.params[row].layout];
    if (layout.modes.empty()) continue;
    spec = LayoutIn(layout, mode).spec;
    const DimParts parts = ShardedParts(layout.parts, spec);
    if (!parts.empty() && why != nullptr) {
      CheckParts(graph, sizes, parameter, parts, why);
    }
    if (parameter.stack_dim >= 0) RemoveStack(plan.mesh, parameter, spec, why);
    if (parameter.manifest_rows.size() == 1) continue;
    const std::string axis = layout.rule < 0
                                 ? std::string()
                                 : plan.placement_axes[AsIndex(layout.rule)];
    spec.insert(spec.begin(), axis.empty() ? AxisGroup{} : AxisGroup{axis});
  }
  return out;
}

}  // namespace shardc
