// `shardc mesh`: one mesh, shown.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/mesh_grid.h"

namespace shardc::cli {
namespace {

struct MeshFlags {
  InputFlags inputs;
  bool ranks = false;
};

int RunMesh(const MeshFlags& all, const Common& common, Findings& findings) {
  const InputFlags& flags = all.inputs;
  Target target;
  if (flags.mesh.empty()) {
    const auto chosen = ChooseTarget(flags, findings);
    if (!chosen) return kFailed;
    target = *chosen;
  }
  const auto mesh = LoadMesh(flags, target, findings);
  if (!mesh) return kFailed;
  AxisRules axes;  // what tensor and sequence parallelism are called
  if (!flags.rules.empty()) {
    const auto rules = LoadRules(flags.rules, "", nullptr, "", findings);
    if (!rules) return kFailed;
    axes = rules->axes;
  }
  const std::string out = common.format == "json"
                              ? MeshGridJson(*mesh, axes, all.ranks)
                              : MeshGridText(*mesh, axes, all.ranks);
  return PutOut(out, findings) ? kDone : kFailed;
}

}  // namespace

Run DeclareMesh(CLI::App& app) {
  auto flags = std::make_shared<MeshFlags>();
  app.add_flag("--ranks", flags->ranks,
               "each process's devices, and its ranks in data and model "
               "parallelism");
  AddMeshFlags(app, flags->inputs);
  AddRulesFlags(app, flags->inputs);
  AddProjectFlags(app, flags->inputs);
  return [flags](const Common& common, Findings& findings) {
    return RunMesh(*flags, common, findings);
  };
}

}  // namespace shardc::cli
