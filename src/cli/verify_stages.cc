// Divides a model into stages for `verify step`, in the same way as `cost`,
// which infers the layers from the names of the parameters:
//
//   --stages pp --schedule zbv on pp:4,tp:2  ->  the table of zbv on 4 ranks, 8
//   stages of 4 layers, the mesh tp:2
#include "cli/verify_stages.h"

#include <string_view>
#include <utility>

#include "cli/output.h"
#include "cost/inputs.h"
#include "cost/pipeline.h"
#include "cost/settings.h"
#include "cost/stage_units.h"

namespace shardc::cli {

bool CanStage(const StageFlags& flags, const verify::StepRequest& request,
              Findings& findings) {
  const std::pair<std::string_view, bool> excluded[] = {
      {"--full", request.full}, {"--part", !request.part.empty()}};
  for (const auto& [name, given] : excluded) {
    if (!given) continue;
    findings.Add(code::kUsage, FlagPlace("--stages", flags.axis),
                 "`" + std::string(name) +
                     "` has no meaning for the stages of a pipeline, which are "
                     "proved together at reduced sizes",
                 "leave out `" + std::string(name) + "` or `--stages`");
    return false;
  }
  if (request.transport == nullptr) return true;
  findings.Add(code::kUsage, FlagPlace("--stages", flags.axis),
               "the stages of a pipeline are run by one process",
               "start `shardc verify step --stages` without a launcher");
  return false;
}

std::optional<verify::StageSettings> StagesToVerify(
    const StageFlags& flags, const Compiled& compiled,
    const std::optional<ModelConfig>& model, const verify::StepRequest& request,
    Findings& findings) {
  cost::Settings settings;
  settings.batch = request.batch;
  settings.length = request.length;
  settings.microbatches = request.microbatches;
  settings.remat = request.remat;
  settings.zero = request.zero;
  const auto stages =
      StageRequestOf(flags, compiled.mesh, settings, request.mode, findings);
  if (!stages) return std::nullopt;
  if (compiled.mesh.device) {
    settings.profile = FindDeviceProfile(compiled.mesh.device->profile);
  }
  const cost::CostInputs work =
      cost::MakeCostInputs(compiled, model, request.mode);
  const auto divided =
      cost::PipelineCostOf(compiled, work, settings, *stages, findings);
  if (!divided) return std::nullopt;
  verify::StageSettings out;
  out.axis = flags.axis;
  out.mesh = cost::StageMesh(compiled.mesh, flags.axis);
  out.table = divided->table;
  for (const cost::StageCost& stage : divided->stages) {
    out.layers.push_back(stage.EndLayer(divided->layers) - stage.FirstLayer());
  }
  return out;
}

}  // namespace shardc::cli
