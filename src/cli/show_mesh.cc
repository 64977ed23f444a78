// `shardc show mesh`: draws one mesh, or prints the place of one device in it.
// The picture has the grid of devices and what each axis spans; the lines below
// it have what a picture lacks, such as the types of axes and the processes:
//
//   shardc show mesh fsdp:8  ->  a row of 8 devices, and `8 devices, 1 process`
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/pictured.h"
#include "cli/planned.h"
#include "emit/pictures/line.h"
#include "emit/plans/input_text.h"
#include "picture/array.h"
#include "plan/read.h"

namespace shardc::cli {
namespace {

struct MeshCommandFlags {
  InputFlags inputs;
  PictureFlags style;
  bool ranks = false, allow_edited = false;
  std::string plan;
  std::string device;
  std::string output;
};

int RunMesh(const MeshCommandFlags& all, const Common& common,
            Findings& findings) {
  const InputFlags& flags = all.inputs;
  std::optional<Mesh> mesh;
  if (all.plan.empty()) {
    mesh = LoadMeshAlone(flags, findings);
  } else if (RefuseInputs(flags, "a plan file has its mesh", findings)) {
    const auto plan =
        ReadPlanFile(all.plan, EditedPlanOf(all.allow_edited), findings);
    if (plan) mesh = plan->mesh;
  }
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
  const auto style = StyleOf(all.style, common, findings);
  if (!style) return kFailed;
  const auto write = [&](Sink& out) {
    if (device && common.format == "json") {
      WriteMeshDeviceJson(*mesh, *device, out);
    } else if (device) {
      out.Append(MeshDeviceText(*mesh, *device));
    } else if (common.format == "json") {
      WriteMeshGridJson(*mesh, axes, all.ranks, out);
    } else {
      out.Append(MeshPictureText(picture::MeshPicture(*mesh), *style) +
                 MeshDetailsText(*mesh, axes, all.ranks));
    }
  };
  return PutResult(write, all.output, findings) ? kDone : kFailed;
}

Options OptionsOf(MeshCommandFlags& flags) {
  Options options = {
      {.name = "--by-process",
       .need = HelpNeed::kOften,
       .to = &flags.ranks,
       .help = "list each process's devices; and its ranks in data "
               "and model parallelism"},
      DeviceInput(flags.device),
      {.name = "--plan",
       .need = HelpNeed::kOften,
       .to = &flags.plan,
       .value = "FILE",
       .help = "plan file whose mesh is drawn"},
      AllowEditedOption(&flags.allow_edited),
      OutputOption(&flags.output)};
  Append(options, OptionsOf(flags.style));
  Append(options, MeshInputs(flags.inputs));
  Append(options, RulesInputs(flags.inputs));
  Append(options, ProjectInputs(flags.inputs));
  return options;
}

}  // namespace

Declared DeclareShowMesh() { return Declare(OptionsOf, RunMesh); }

}  // namespace shardc::cli
