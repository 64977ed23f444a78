// `shardc mesh`: prints one mesh.
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "emit/plans/input_text.h"

namespace shardc::cli {
namespace {

struct MeshCommandFlags {
  InputFlags inputs;
  bool ranks = false;
  std::string device;
  std::string output;
};

int RunMesh(const MeshCommandFlags& all, const Common& common,
            Findings& findings) {
  const InputFlags& flags = all.inputs;
  const auto mesh = LoadMeshAlone(flags, findings);
  if (!mesh) return kFailed;
  // The mesh axes that the rules assign to each kind of parallelism, such as
  // dp.
  AxisRules axes;
  if (!flags.asked.rules.empty()) {
    const auto rules = OpenRules(flags.asked.rules, "", nullptr, "", findings);
    if (!rules) return kFailed;
    axes = rules->axes;
  }
  std::optional<int64_t> device;
  if (!all.device.empty()) {
    device = ParseDevice(all.device, *mesh, findings);
    if (!device) return kFailed;
  }
  const auto write = [&](Sink& out) {
    if (device && common.format == "json") {
      WriteMeshDeviceJson(*mesh, *device, out);
    } else if (device) {
      out.Append(MeshDeviceText(*mesh, *device));
    } else if (common.format == "json") {
      WriteMeshGridJson(*mesh, axes, all.ranks, out);
    } else {
      out.Append(MeshGridText(*mesh, axes, all.ranks));
    }
  };
  return PutResult(write, all.output, findings) ? kDone : kFailed;
}

Options OptionsOf(MeshCommandFlags& flags) {
  Options options = {{.name = "--ranks",
                      .to = &flags.ranks,
                      .help = "list each process's devices, and its ranks in "
                              "data and model parallelism"},
                     DeviceInput(flags.device),
                     OutputOption(&flags.output)};
  Append(options, MeshInputs(flags.inputs));
  Append(options, RulesInputs(flags.inputs));
  Append(options, ProjectInputs(flags.inputs));
  return options;
}

}  // namespace

Declared DeclareMesh() { return Declare(OptionsOf, RunMesh); }

}  // namespace shardc::cli
