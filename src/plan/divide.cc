// Divides a compiled model into pipeline stages: finds the set of stages that
// hold each parameter. All parameters of one layer have the same set. A set is
// stored once for all of them, so a plan stores about as many sets as the model
// has layers. For example, with 32 layers in 4 stages:
//
//   layer 5                              ->  {0}
//   an embedding that the head also uses ->  {0, 3}
#include "plan/divide.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/placement.h"
#include "plan/planned_stages.h"
#include "plan/stages.h"
#include "source/index.h"

namespace shardc {
namespace {

// The key of a set of stages has three parts. The first is the parameter's unit
// (StageUnits::of): its layer, the embeddings, the head, or a layer stack. The
// second is the index of the layer stack, or 0. The third is whether the last
// stage also needs the parameter (StageUnits::tied).
using SetKey = std::tuple<int64_t, uint32_t, bool>;

PlanStages StagesOf(const PlannedStages& from) {
  PlanStages out;
  out.axis = from.axis;
  out.ranks = from.table.ranks();
  out.virtual_stages =
      std::max<int64_t>(1, from.stages() / std::max(1, from.table.ranks()));
  out.placement = schedule::PlacementName(from.table.placement);
  out.schedule = from.table.name;
  out.table = TableDigest(from.table);
  out.microbatches = from.table.microbatches;
  for (int32_t s = 0; s < from.stages(); ++s) {
    PlanStage stage;
    stage.ranks = from.RanksOf(s);
    stage.layers = from.LayersOf(s);
    stage.first = s == 0;
    stage.last = s + 1 == from.stages();
    out.of.push_back(std::move(stage));
  }
  return out;
}

ParamStages SetOf(const PlannedStages& from, size_t param) {
  ParamStages out;
  out.of = from.SharesOf(param);
  if (const LayerStackRange* stack = from.units.StackOf(param)) {
    out.dim = stack->dim;
    out.dims = stack->dims;
    out.layers = stack->layers;
  }
  return out;
}

void AddSets(const PlannedStages& from, Plan& plan) {
  std::map<SetKey, uint32_t> known;
  plan.stage_set.reserve(plan.params.size());
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const bool stacked = from.units.StackOf(i) != nullptr;
    const SetKey key = {from.units.of[i], stacked ? from.units.stack_of[i] : 0,
                        from.units.tied[i]};
    const auto [at, added] =
        known.try_emplace(key, static_cast<uint32_t>(plan.stage_sets.size()));
    if (added) plan.stage_sets.push_back(SetOf(from, i));
    plan.stage_set.push_back(at->second);
    const ParamStages& own = plan.stage_sets[at->second];
    if (own.dim || own.of.size() < 2) continue;
    StageCopy copy{std::string(plan.names[i]), {}, RanksOf(*plan.stages, own)};
    for (const StageShare& share : own.of) copy.stages.push_back(share.stage);
    plan.stages->copies.push_back(std::move(copy));
  }
}

}  // namespace

void DivideByStages(const StageDeclaration& declared, const ModelConfig* config,
                    Compiled& compiled, Findings& reads) {
  compiled.stage_axis = declared.axis;
  Findings own;
  const auto request =
      DeclaredRequest(declared, compiled.mesh, std::nullopt, own);
  auto stages = request ? DivideIntoStages(compiled, config, *request, own)
                        : std::nullopt;
  reads.NoteReadsOf(own);
  compiled.stage_findings.assign(own.all().begin(), own.all().end());
  if (!stages) return;
  compiled.stages = std::make_shared<const PlannedStages>(std::move(*stages));
  Plan& plan = compiled.plan;
  plan.stages = StagesOf(*compiled.stages);
  AxisGroup& hidden = plan.stages->hidden.emplace();
  for (const std::string& axis :
       compiled.resolver->axes().Value(AxisRule::kHiddenState).axes) {
    if (compiled.mesh.Find(axis)) hidden.push_back(axis);
  }
  AddSets(*compiled.stages, plan);
  plan.summary.bytes_by_rank = ParameterBytesByRank(plan, Mode::kTrain);
  plan.summary.bytes_per_device = MostOf(plan.summary.bytes_by_rank);
}

}  // namespace shardc
