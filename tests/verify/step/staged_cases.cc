// Makes a correct small step on the ranks of a pipeline. The graph of one
// micro-batch is written, divided by its layers, and lowered for the mesh of
// one rank. For example, the case zbv has 2 ranks with a mesh dp=2 tp=2 each.
// It has 4 micro-batches, and stages 0 to 3 of one layer each.
#include "verify/step/staged_cases.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "schedule/schedules.h"
#include "source/size.h"
#include "step/lower.h"
#include "verify/step/sound_models.h"

namespace shardc::verify {
namespace {

void Constrain(const StagedCaseKind& kind, SoundModel& model) {
  const AxisGroup data = {kind.experts ? "ep" : "dp"};
  model.Constrain("BATCH", data);
  model.Constrain("HEAD", {"tp"});
  model.Constrain("KV_HEAD", {"tp"});
  model.Constrain("MLP_INTERMEDIATE", {"tp"});
  model.Constrain("VOCAB", {"tp"});
  if (kind.experts) model.Constrain("EXPERT", {"ep"});
  model.constraints.data = data;
}

Mesh MeshOfRank(const StagedCaseKind& kind) {
  Mesh mesh;
  mesh.axes = {{kind.experts ? "ep" : "dp", kind.dp, AxisType::kAuto},
               {"tp", kind.tp, AxisType::kAuto}};
  mesh.devices = kind.dp * kind.tp;
  return mesh;
}

step::StageDivision DivisionOf(const std::vector<int64_t>& layers) {
  step::StageDivision out;
  out.stages = static_cast<int32_t>(layers.size());
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    out.of_layer.insert(out.of_layer.end(), AsIndex(layers[stage]),
                        static_cast<int32_t>(stage));
  }
  return out;
}

}  // namespace

std::unique_ptr<StagedCase> MakeStagedCase(const StagedCaseKind& kind) {
  const schedule::Schedule* const schedule =
      schedule::FindSchedule(kind.schedule);
  if (schedule == nullptr || schedule::Refusal(*schedule, kind.extent) ||
      static_cast<int32_t>(kind.layers.size()) != kind.extent.Stages()) {
    return nullptr;
  }
  auto out = std::make_unique<StagedCase>();
  out->mesh = MeshOfRank(kind);
  SoundModel model;
  Constrain(kind, model);
  const auto layers =
      std::accumulate(kind.layers.begin(), kind.layers.end(), int64_t{0});
  WriteSoundModel({.sizes = {.b = 4, .t = 4, .n = 4, .k = 2},
                   .layers = static_cast<int>(layers),
                   .experts = kind.experts,
                   .recompute = kind.recompute,
                   .mixed = true,
                   .bare = true},
                  model);
  if (!WriteStagedStep(model.graph, schedule::MakeTable(*schedule, kind.extent),
                       DivisionOf(kind.layers), kind.reduction, out->step)) {
    return nullptr;
  }
  out->graph = std::move(model.graph);
  out->sizes = std::move(model.sizes);
  step::LowerRequest request{.graph = &out->graph,
                             .mesh = out->mesh,
                             .sizes = out->sizes,
                             .parameters = model.specs,
                             .constraints = model.constraints};
  step::Unsupported why;
  auto program = step::Lower(request, why);
  if (!program) return nullptr;
  out->program = std::move(*program);
  out->reference = MakeReference(out->graph, out->sizes, out->dtype, 0);
  return out;
}

StepProof StagedCase::Prove(const Changes& changes,
                            StagedTraffic* traffic) const {
  const StagedStep& divided = changes.step != nullptr ? *changes.step : step;
  const StagedProgram staged(graph, program, divided);
  const schedule::Table& table =
      changes.table != nullptr ? *changes.table : step.table;
  schedule::Programs own;
  if (changes.programs == nullptr) {
    own = schedule::Lower(table, schedule::Receives::kInSendOrder);
  }
  const StagedRunRequest request{
      .graph = &graph,
      .program = &program,
      .staged = &staged,
      .table = &table,
      .programs = changes.programs != nullptr ? changes.programs : &own,
      .scope = changes.scope,
      .faults = changes.faults};
  StepCase test = Case();
  test.alone = nullptr;
  test.seams = changes.seams;
  test.execute = [&](const exec::SimMesh& on, const exec::Seams& seams,
                     const exec::StepInputs& inputs,
                     std::vector<StepProblem>& problems) {
    return RunStaged(request, on, seams, inputs, problems, traffic);
  };
  return ProveStep(test);
}

StagedCaseKind SmallStagedCase(std::string_view schedule) {
  const schedule::Schedule* const known = schedule::FindSchedule(schedule);
  StagedCaseKind out;
  out.schedule = known->name;
  const bool dual = schedule.starts_with("dualpipe");
  out.extent = {dual ? 4 : 2, known->virtual_stages, dual ? 8 : 4};
  out.layers.assign(AsIndex(out.extent.Stages()), 1);
  const auto number = known - schedule::Schedules().data();
  out.experts = number % 3 == 1;
  out.recompute = number % 3 == 2;
  return out;
}

}  // namespace shardc::verify
