// `shardc mesh`: one mesh, shown.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/json_text.h"

namespace shardc::cli {
namespace {

int RunMesh(const InputFlags& flags, const Common& common, Findings& findings) {
  Target target;
  if (flags.mesh.empty()) {
    const auto chosen = ChooseTarget(flags, findings);
    if (!chosen) return kFailed;
    target = *chosen;
  }
  const auto mesh = LoadMesh(flags, target, findings);
  if (!mesh) return kFailed;
  std::string out;
  if (common.format == "json") {
    AppendMesh(out, *mesh);
    out += "\n";
  } else {
    out = MeshText(*mesh) + "\n";
  }
  return PutOut(out, findings) ? kDone : kFailed;
}

}  // namespace

Run DeclareMesh(CLI::App& app) {
  auto flags = std::make_shared<InputFlags>();
  AddMeshFlags(app, *flags);
  AddProjectFlags(app, *flags);
  return [flags](const Common& common, Findings& findings) {
    return RunMesh(*flags, common, findings);
  };
}

}  // namespace shardc::cli
