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

}  // namespace

std::vector<Spec> StepSpecs(const Plan& plan, const step::Graph& graph,
                            Mode mode,
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
