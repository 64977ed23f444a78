// Makes the correct steps into which faults are injected. A case is a small
// model, a mesh and sharding constraints. It is lowered like any other step,
// once for the mesh and once for one device:
//
//   kExperts: a layer of experts on ep=4 sp=2 tp=2; batch and experts are
//   sharded over ep, so that tokens reach their experts by an all_to_all
#include "verify/step/sound_cases.h"

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/mesh_layout.h"
#include "source/size.h"
#include "step/lower.h"
#include "verify/step/sound_models.h"

namespace shardc::verify {
namespace {

using Axes = std::vector<std::pair<std::string, int64_t>>;

Mesh MeshOf(const Axes& axes) {
  Mesh mesh;
  mesh.devices = 1;
  for (const auto& [name, size] : axes) {
    mesh.axes.push_back({name, size, AxisType::kAuto});
    mesh.devices *= size;
  }
  return mesh;
}

void ConstrainHeads(SoundModel& of, const AxisGroup& kv_heads) {
  of.Constrain("HEAD", {"tp"});
  of.Constrain("KV_HEAD", kv_heads);
  of.Constrain("MLP_INTERMEDIATE", {"tp"});
  of.Constrain("VOCAB", {"tp"});
}

// Makes the scores of the first two experts equal, so that a tie occurs.
void TieExperts(const step::Graph& graph, StepData& data) {
  for (const step::Parameter& parameter : graph.parameters) {
    if (parameter.role != "router" && parameter.role != "correction") continue;
    exec::Buffer& buffer = data.inputs.values[AsIndex(parameter.value)];
    const int64_t row = buffer.Elements() / buffer.shape[0];
    for (int64_t i = 0; i < row; ++i) {
      buffer.wide[AsIndex(row + i)] = buffer.wide[AsIndex(i)];
      data.values[AsIndex(parameter.value)].data[AsIndex(row + i)] =
          buffer.wide[AsIndex(i)];
    }
  }
}

struct Recipe {
  Axes axes;
  SoundModelKind kind;
};

Recipe RecipeOf(SoundStep which) {
  switch (which) {
    case SoundStep::kTensor:
    case SoundStep::kNarrow:
      return {{{"dp", 2}, {"fsdp", 2}, {"tp", 4}}, {.layers = 2}};
    case SoundStep::kRecompute:
      return {{{"dp", 2}, {"fsdp", 2}, {"tp", 4}},
              {.layers = 2, .recompute = true}};
    case SoundStep::kSequence:
      return {{{"dp", 2}, {"sp", 2}, {"tp", 2}},
              {.sizes = {.b = 4, .t = 16, .n = 4, .k = 4}}};
    case SoundStep::kSplit:
      return {{{"fsdp", 2}, {"tp", 2}},
              {.sizes = {.b = 4, .n = 4, .k = 4},
               .halves_outside = true,
               .latent = true}};
    case SoundStep::kExperts:
      return {{{"ep", 4}, {"sp", 2}, {"tp", 2}}, {.experts = true}};
    case SoundStep::kTokens:
      return {{{"dp", 2}, {"ep", 4}}, {.experts = true}};
    case SoundStep::kDecode:
      return {{{"sp", 4}, {"tp", 2}},
              {.sizes = {.b = 4, .t = 1, .n = 4, .k = 4}, .decodes = true}};
    case SoundStep::kMicro:
      return {{{"dp", 2}, {"fsdp", 2}}, {}};
    case SoundStep::kRing:
      return {{{"sp", 4}, {"tp", 2}},
              {.sizes = {.b = 2, .t = 16, .n = 8, .k = 4}, .turns = 4}};
    case SoundStep::kFactored:
      return {{{"dp", 2}, {"tp:(1)2", 2}, {"tp:(2)2.", 2}},
              {.sizes = {.b = 4}, .kv_axes = {"tp:(1)2"}}};
  }
  return {};
}

void SetConstraints(SoundStep which, SoundModel& of) {
  switch (which) {
    case SoundStep::kTensor:
    case SoundStep::kNarrow:
    case SoundStep::kRecompute:
    case SoundStep::kMicro:
      of.Constrain("BATCH", {"fsdp", "dp"});
      ConstrainHeads(of, {});
      of.constraints.data = {"dp", "fsdp"};
      return;
    case SoundStep::kSequence:
      of.Constrain("BATCH", {"dp"});
      of.Constrain("QUERY_LENGTH", {"sp"});
      of.Constrain("KV_LENGTH", {"sp"});
      ConstrainHeads(of, {"tp"});
      of.constraints.overrides = {{"resid", "QUERY_LENGTH", {"sp", "tp"}},
                                  {"normed", "QUERY_LENGTH", {"sp", "tp"}},
                                  {"krep", "KV_LENGTH", {}},
                                  {"kgather", "KV_LENGTH", {}}};
      of.constraints.data = {"dp", "sp"};
      return;
    case SoundStep::kSplit:
      of.Constrain("BATCH", {"fsdp"});
      of.Constrain("EMBED", {"tp"});
      ConstrainHeads(of, {"tp"});
      of.constraints.data = {"fsdp"};
      return;
    case SoundStep::kExperts:
      of.Constrain("BATCH", {"ep"});
      of.Constrain("QUERY_LENGTH", {"sp"});
      of.Constrain("EXPERT", {"ep"});
      ConstrainHeads(of, {"tp"});
      of.constraints.data = {"ep", "sp"};
      return;
    case SoundStep::kTokens:
      of.Constrain("BATCH", {"dp"});
      of.Constrain("EXPERT", {"ep"});
      of.constraints.data = {"dp"};
      return;
    case SoundStep::kRing:
      of.Constrain("QUERY_LENGTH", {"sp"});
      of.Constrain("KV_LENGTH", {"sp"});
      ConstrainHeads(of, {"tp"});
      of.constraints.data = {"sp"};
      return;
    case SoundStep::kFactored:
      of.Constrain("BATCH", {"dp"});
      ConstrainHeads(of, {"tp"});
      of.constraints.data = {"dp"};
      return;
    case SoundStep::kDecode:
      of.Constrain("KV_LENGTH", {"sp"});
      ConstrainHeads(of, {"tp"});
      of.constraints.data = {"sp"};
      return;
  }
}

bool LowerInto(const SoundModel& of, SoundCase& out) {
  step::LowerRequest request{.graph = &out.graph,
                             .mesh = out.mesh,
                             .sizes = out.sizes,
                             .parameters = of.specs,
                             .constraints = of.constraints};
  for (Spec& spec : request.parameters) spec = RefinedSpec(out.mesh, spec);
  for (AxisGroup& axes : request.constraints.by_axis) {
    axes = RefinedGroup(out.mesh, axes);
  }
  step::Unsupported why;
  auto program = step::Lower(request, why);
  request.mesh = MeshOf({{"one", 1}});
  auto alone = step::Lower(request, why);
  if (!program || !alone) return false;
  out.program = std::move(*program);
  out.alone = std::move(*alone);
  return true;
}

}  // namespace

std::string_view SoundStepName(SoundStep which) {
  static constexpr std::array<std::string_view, kSoundSteps> kNames = {
      "tensor", "sequence", "split", "experts", "tokens",  "decode",
      "micro",  "narrow",   "again", "ring",    "factored"};
  return kNames[static_cast<size_t>(which)];
}

StepCase SoundCase::Case() const {
  StepCase out;
  out.graph = &graph;
  out.program = &program;
  out.alone = &alone;
  out.mesh = mesh;
  out.sizes = sizes;
  out.dtype = dtype;
  out.reference = &reference;
  return out;
}

std::unique_ptr<SoundCase> MakeSoundCase(SoundStep which) {
  const Recipe recipe = RecipeOf(which);
  auto out = std::make_unique<SoundCase>();
  out->mesh = MeshOf(recipe.axes);
  out->dtype = which == SoundStep::kNarrow ? Dtype::kF32 : Dtype::kF64;
  SoundModel model;
  SetConstraints(which, model);
  if (which == SoundStep::kMicro) {
    WriteMicroBatches(model);
  } else {
    WriteSoundModel(recipe.kind, model);
  }
  out->graph = std::move(model.graph);
  out->sizes = std::move(model.sizes);
  if (!LowerInto(model, *out)) return nullptr;
  out->reference = MakeStepData(out->graph, out->sizes, out->dtype, 0);
  if (recipe.kind.experts) TieExperts(out->graph, out->reference);
  dense::RunStep(out->graph, out->sizes, step::Phase::kOptimizer,
                 out->reference.values);
  return out;
}

}  // namespace shardc::verify
