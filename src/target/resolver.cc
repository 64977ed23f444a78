// Makes a resolver of specs for commands that need neither a mesh nor a
// manifest. A resolver replaces the logical axes of a spec, such as BATCH, by
// mesh axes. It keeps only axes that the mesh has. If there is no mesh, it
// therefore gets a mesh with all axes that axis rules and registrations name,
// each of size 1. For example, without axis rules of the user, BATCH stands for
// fsdp and dp:
//
//   no mesh, [BATCH, [FSDP, SP], _]  ->  [["fsdp", "dp"], ["fsdp", "sp"], null]
#include "target/resolver.h"

#include <string>
#include <utility>

#include "model/axis_rules.h"
#include "parse/project.h"
#include "plan/pack_axes.h"
#include "target/open.h"

namespace shardc {
namespace {

void AddAxis(Mesh& mesh, const std::string& name) {
  if (!mesh.Find(name)) mesh.axes.push_back({name, 1, AxisType::kAuto});
}

Mesh MeshOf(const RuleSet& rules) {
  Mesh mesh;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const AxisValue value = rules.axes.Value(static_cast<AxisRule>(i));
    for (const std::string& axis : value.axes) AddAxis(mesh, axis);
  }
  for (const Registration& registration : rules.registrations) {
    for (const auto& name : registration.rule.names) {
      if (name.forced_axis || !rules.IsLogical(name.text)) {
        AddAxis(mesh, name.text);
      }
    }
  }
  return mesh;
}

}  // namespace

std::optional<Target> ChooseForResolver(const TargetRequest& request,
                                        Findings& findings) {
  Target target;
  const bool named = !request.target.empty() || !request.project.empty();
  const bool given = !request.mesh.empty() || !request.rules.empty();
  if (given && !named) {
    target.rules = request.rules;
    target.model = request.model;
    if (!request.mesh.empty())
      target.mesh = MeshInput{request.mesh, {}, {}, {}};
    return target;
  }
  // If the request names neither a target nor a project, it is not an error
  // that no target can be chosen.
  Findings own;
  auto chosen = ChooseTarget(request, own);
  findings.NoteReadsOf(own);
  if (chosen) return chosen;
  if (!named) return target;
  findings.Append(std::move(own));
  return std::nullopt;
}

std::optional<OpenedResolver> OpenResolver(const Target& target,
                                           std::optional<int64_t> devices,
                                           Findings& findings,
                                           const FileTexts* texts,
                                           const Boundary& boundary) {
  const size_t before = findings.errors();
  RuleSet rules;
  if (!target.rules.empty()) {
    if (auto read = OpenRulesAlone(target, findings, texts, boundary)) {
      rules = std::move(*read);
    }
  }
  std::optional<Mesh> mesh;
  if (IsNamed(target.mesh))
    mesh = OpenMesh(target.mesh, devices, findings, texts);
  if (findings.errors() > before) return std::nullopt;
  if (mesh && !target.model.empty()) {
    const auto model = ReadModelConfig(target.model, findings);
    if (!model) return std::nullopt;
    ChoosePackAxes(rules, &*model, *mesh);
  }
  auto resolver = Resolver::Make(rules, mesh ? *mesh : MeshOf(rules), findings);
  if (!resolver) return std::nullopt;
  return OpenedResolver{std::move(*resolver), mesh.has_value(), rules.policy};
}

}  // namespace shardc
