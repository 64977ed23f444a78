// Finds the specs of a step's parameters in the plan. For example, the weights
// of 8 experts with the spec [null, tp], placed along ep, are one parameter:
//
//   [experts, inner, width]  ->  [ep, null, tp]
#include "plan/step_specs.h"

#include "plan/mode_layout.h"
#include "source/index.h"

namespace shardc {
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

// Returns whether the step divides each of `parts` equal parts of a dimension:
// the dimension's label has the factor that is sharded before the one that
// counts the parts, as LabelTable::Of() writes it.
bool DividesParts(const step::Graph& graph, const step::Sizes& sizes,
                  step::LabelId label, int64_t parts) {
  const auto& factors = graph.labels[AsIndex(label)].factors;
  return factors.size() > 1 &&
         !graph.labels[AsIndex(factors[0])].semantic.empty() &&
         sizes[AsIndex(factors[1])] == parts;
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
    if (parts[dim] > 1 &&
        (at >= labels.size() ||
         !DividesParts(graph, sizes, labels[at], parts[dim]))) {
      *why = parameter.role + ": the plan divides each of " +
             std::to_string(parts[dim]) + " parts of dimension " +
             std::to_string(dim) +
             " (`parts`), and the step divides the dimension as one; write "
             "`fused: by_part` in the `model:` section";
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
