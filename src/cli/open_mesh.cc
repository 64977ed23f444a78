// A resolver where a mesh need not be given: without one, every axis that the
// rules name exists with size 1, so that all of them show.
//
//   no mesh, [BATCH, [FSDP, SP], _]  ->  [["fsdp", "dp"], ["fsdp", "sp"], null]
#include "cli/open_mesh.h"

namespace shardc::cli {
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
      if (name.forced_axis || !ParseAxisRule(name.text)) {
        AddAxis(mesh, name.text);
      }
    }
  }
  return mesh;
}

}  // namespace

std::optional<Resolver> LoadResolver(const InputFlags& flags,
                                     Findings& findings) {
  const size_t before = findings.errors();
  Target target;
  const bool given = !flags.mesh.empty() || !flags.rules.empty();
  if (!given || !flags.target.empty() || !flags.project.empty()) {
    // A project with several targets and none chosen is no help here.
    Findings own;
    if (auto chosen = ChooseTarget(flags, own)) {
      target = std::move(*chosen);
    } else if (!flags.target.empty() || !flags.project.empty()) {
      findings.Append(std::move(own));
      return std::nullopt;
    }
  } else {
    target.rules = flags.rules;
  }
  RuleSet rules;
  if (!target.rules.empty()) {
    if (auto read = LoadRules(target.rules, target.project_dir, nullptr, "",
                              findings)) {
      rules = std::move(*read);
    }
  }
  const bool has_mesh = !flags.mesh.empty() || !target.mesh.file.empty() ||
                        !target.mesh.text.empty() ||
                        target.mesh.inline_place.has_value();
  std::optional<Mesh> mesh;
  if (has_mesh) mesh = LoadMesh(flags, target, findings);
  if (findings.errors() > before) return std::nullopt;
  return Resolver::Make(rules, mesh ? *mesh : MeshOf(rules), findings);
}

}  // namespace shardc::cli
