// Divides a model into pipeline stages for `shardc verify step`, in the same
// way as `shardc cost`. The layers are recognised by the names of the
// parameters. For example, zbv is a schedule with two stages on each rank. A
// model of 32 layers on the mesh pp:4,tp:2 with `--stages pp --schedule zbv` is
// divided into:
//
//   4 ranks, each on a mesh tp:2; 8 stages of 4 layers; the schedule zbv
#include "cli/verify_stages.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/output.h"
#include "cost/inputs.h"
#include "cost/pipeline.h"
#include "cost/settings.h"
#include "plan/planned_stages.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

bool CanStage(const StageFlags& flags, const StageDeclaration* declared,
              const verify::StepRequest& request, Findings& findings) {
  const bool given = flags.Given() || declared == nullptr;
  const Place place =
      given ? FlagPlace("--stages", flags.axis) : declared->axis_place;
  const std::string without =
      given ? "or `--stages`"
            : "or pass `--stages none`, which proves the step on one stage";
  const std::pair<std::string_view, bool> excluded[] = {
      {"--full", request.full}, {"--part", !request.part.empty()}};
  for (const auto& [name, wanted] : excluded) {
    if (!wanted) continue;
    findings.Add(code::kUsage, place,
                 "`" + std::string(name) +
                     "` has no meaning for the stages of a pipeline, which are "
                     "proved together at reduced sizes",
                 "leave out `" + std::string(name) + "`" +
                     (given ? " " : ", ") + without);
    return false;
  }
  if (request.transport == nullptr) return true;
  findings.Add(
      code::kUsage, place, "the stages of a pipeline are run by one process",
      given ? "start `shardc verify step --stages` without a launcher"
            : "start `shardc verify step` without a launcher, " + without);
  return false;
}

// Returns the stages for verification. If the number of layers of each stage is
// not given, the cost model chooses these numbers.
std::optional<verify::StageSettings> StagesToVerify(
    const PlannedStages& planned, const Compiled& compiled,
    const std::optional<ModelConfig>& model, const verify::StepRequest& request,
    bool exposed, Findings& findings) {
  cost::Settings settings;
  settings.batch = request.batch;
  settings.length = request.length;
  settings.remat = request.remat;
  settings.zero = request.zero;
  if (compiled.mesh.device) {
    settings.profile = FindDeviceProfile(compiled.mesh.device->profile);
  }
  const cost::CostInputs work =
      cost::MakeCostInputs(compiled, model, Mode::kTrain);
  const auto divided = cost::PipelineCostOf(compiled, work, settings, planned,
                                            exposed, findings);
  if (!divided) return std::nullopt;
  verify::StageSettings out;
  out.axis = planned.axis;
  out.mesh = StageMesh(compiled.step_mesh, planned.axis);
  out.all_mesh = compiled.mesh;
  out.table = divided->table;
  for (const cost::StageCost& stage : divided->stages) {
    out.layers.push_back(stage.LayersOf(divided->layers).count());
  }
  return out;
}

// Returns the default batch of a step in stages. A stage has fewer devices than
// the mesh, so each micro-batch has the usual batch divided by the number of
// ranks. If the usual batch is 16 sequences on pp:4, a micro-batch has 4
// sequences, and 8 micro-batches have 8 * 4 sequences.
int64_t StagedBatch(const Mesh& mesh, const std::string& axis, int64_t usual,
                    int64_t microbatches) {
  const int64_t rows =
      std::max<int64_t>(1, usual / std::max<int64_t>(1, mesh.SizeOf(axis)));
  const Size multiple = Size(rows) * microbatches;
  return multiple.Fits() ? multiple.value() : usual;
}

bool CheckMicrobatches(int64_t microbatches, Findings& findings) {
  if (microbatches <= kMostMicrobatches) return true;
  findings.Add(code::kUsage, {},
               "`microbatches` is " + CountText(microbatches) + ", " +
                   CountText(kMostMicrobatches) + " at most are run",
               "give fewer with `--microbatches`");
  return false;
}

bool CheckBatch(const verify::StepRequest& request, Findings& findings) {
  if (request.batch % request.microbatches == 0) return true;
  findings.Add(code::kUsage, {},
               "a batch of " + CountText(request.batch) +
                   " is no multiple of " + CountText(request.microbatches) +
                   " micro-batches",
               "`--batch` is that of the whole step");
  return false;
}

}  // namespace

bool DivideStep(const StepDivision& division, const Compiled& compiled,
                const std::optional<ModelConfig>& model,
                verify::StepRequest& request,
                std::optional<verify::StageSettings>& out, Findings& findings) {
  const StageDeclaration* declared =
      division.trains ? division.declared : nullptr;
  const bool staged = declared != nullptr || division.flags.Given();
  std::shared_ptr<const PlannedStages> planned;
  if (!CheckMicrobatches(request.microbatches, findings)) return false;
  if (staged) {
    if (!CanStage(division.flags, declared, request, findings)) return false;
    StageSizes sizes = {Mode::kTrain, division.usual_batch, request.length, {}};
    if (division.microbatches_given) sizes.microbatches = request.microbatches;
    planned = StagesOfCommand(division.flags, declared, compiled,
                              model ? &*model : nullptr, sizes, findings);
    if (planned == nullptr) return false;
    request.microbatches = planned->table.microbatches;
    if (!CheckMicrobatches(request.microbatches, findings)) return false;
  }
  if (request.batch == 0) {
    request.batch =
        declared == nullptr
            ? division.usual_batch
            : StagedBatch(compiled.mesh, planned->axis, division.usual_batch,
                          request.microbatches);
  }
  if (!CheckBatch(request, findings)) return false;
  if (!staged) return true;
  out = StagesToVerify(*planned, compiled, model, request,
                       division.flags.Exposed(), findings);
  return out.has_value();
}

}  // namespace shardc::cli
