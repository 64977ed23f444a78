// Makes the inputs of the cost model for one pipeline stage. Parameters of
// other stages are left out. A tensor may stack the layers of several stages in
// one dimension. It is replaced by a smaller tensor, which has only the layers
// of this stage. For example, for the stage with the first 8 of 32 layers:
//
//   layers/up/kernel [32, 4096, 14336]  ->  [8, 4096, 14336]
#include "cost/stage_inputs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cost/chosen_inputs.h"
#include "plan/placement.h"
#include "plan/representatives.h"
#include "source/index.h"

namespace shardc::cost {
namespace {

// Returns how many layers of a layer stack are in the units from `begin` to
// before `end`. Unit 0 is the embedding, so layer n is unit n + 1.
int64_t LayersOf(const LayerStackRange& stack, int64_t begin, int64_t end) {
  return std::max<int64_t>(0, std::min(end - 1, stack.first + stack.layers) -
                                  std::max(begin - 1, stack.first));
}

// Returns the configuration of a model that has only the layers of one stage.
// The stage has `layers` layers, and the whole model has `of` layers.
std::optional<ModelConfig> StageModel(const std::optional<ModelConfig>& whole,
                                      int64_t layers, int64_t of) {
  std::optional<ModelConfig> out = whole;
  if (!out) return out;
  const auto share = [&](std::optional<int64_t>& one) {
    if (one) *one = *one * layers / std::max<int64_t>(1, of);
  };
  share(out->attention_layers);
  share(out->windowed_layers);
  share(out->borrowing_layers);
  share(out->borrowing_windowed);
  out->layers = layers;
  return out;
}

// Returns the number of layers with a projection of keys.
int64_t LayersWithKeys(const CostInputs& work) {
  return work.LayersWith(Role::kKey) + work.LayersWith(Role::kFusedKeyValue) +
         work.LayersWith(Role::kFusedQkv);
}

// Sets the number of layers with attention of a stage. The stage has `layers`
// layers, and the whole model has `of` layers. In a hybrid model, the layers
// with attention are those with a projection of keys. Latent attention has no
// such projection, so its layers are assumed to be spread evenly over the
// model.
void SetAttentionLayers(const CostInputs& all, int64_t layers, int64_t of,
                        CostInputs& stage) {
  if (!all.model || !all.model->layers || of == 0) return;
  const auto& hybrid = all.model->attention_layers;
  int64_t part = layers, whole = of;
  const int64_t keys = LayersWithKeys(all);
  if (hybrid && keys > 0 && !all.model->latent_rank) {
    part = LayersWithKeys(stage);
    whole = keys;
  }
  const auto share = [&](int64_t count) {
    return Real(count) * Real(part) / Real(whole);
  };
  stage.attention_layers = share(hybrid.value_or(*all.model->layers));
  if (hybrid) {
    stage.model->attention_layers = std::llround(*stage.attention_layers);
  }
  if (all.model->windowed_layers) {
    stage.windowed_layers = share(*all.model->windowed_layers);
  }
}

}  // namespace

CostInputs StageInputs(const StagedModel& model, const CostInputs& all,
                       const PlannedStages& stages, int64_t begin, int64_t end,
                       bool copies) {
  const StageUnits& units = stages.units;
  const bool last = end == units.count();
  Representatives chosen;
  const size_t params = model.plan.params.size();
  chosen.counts.resize(params);
  chosen.placed.resize(params);
  StackSlices slices(units.stacks.empty() ? 0 : params);
  for (size_t i = 0; i < params; ++i) {
    if (const LayerStackRange* stack = units.StackOf(i)) {
      const int64_t layers = LayersOf(*stack, begin, end);
      if (layers == 0) continue;
      slices[i] = {stack->dim, layers, stack->layers};
    } else {
      const bool inside = units.of[i] >= begin && units.of[i] < end;
      if (!inside && !(last && copies && units.tied[i])) continue;
    }
    chosen.counts[i] = 1;
    const PlannedParam& param = model.plan.params[i];
    const auto coordinate = model.plan.CoordinateOf(param);
    if (!coordinate) continue;
    // A rule with `place` puts the parameter at `coordinate` of the axis
    // `along`. ChosenInputs computes a coordinate as index * size / count,
    // where `size` is the size of the axis. So `count` is set to the size, and
    // the index to the coordinate: the result is then the coordinate itself.
    const std::string& along =
        PlacementAxis(model.plan, model.plan.layouts[param.layout]);
    chosen.placed[i].count = model.plan.mesh.SizeOf(along);
    chosen.placed[i].parameters[*coordinate] = 1;
  }
  const int64_t layers = LayersIn(begin, end, units.layers).count();
  CostInputs out = ChosenInputs(model.plan, model.separator, all,
                                StageModel(all.model, layers, units.layers),
                                chosen, slices.empty() ? nullptr : &slices);
  SetAttentionLayers(all, layers, units.layers, out);
  out.mesh = StageMesh(all.mesh, stages.axis);
  out.all_stages = all.mesh;
  out.next_token_layers = last ? all.next_token_layers : 0;
  if (!last) {
    for (ParamClass& param : out.params) {
      if (param.role.module_role == Role::kEmbedding) {
        param.role.module_role = Role::kPosition;
      }
    }
  }
  return out;
}

CostInputs StagedPlanInputs(const PlanView& plan,
                            std::optional<ModelConfig> model) {
  CostInputs out = MakeCostInputs(plan, std::move(model), Mode::kTrain);
  if (plan.plan.stages && plan.plan.stages->hidden) {
    out.hidden = *plan.plan.stages->hidden;
    out.hidden_known = true;
    return out;
  }
  const auto hidden = out.Hidden();
  const AxisGroup& heads = out.query[2];
  if (hidden && *hidden % out.Parts(heads) == 0) out.hidden = heads;
  return out;
}

std::vector<size_t> KindsOfUnits(const Plan& plan, const StageUnits& units) {
  std::vector<std::vector<uint32_t>> layouts(AsIndex(units.count()));
  for (size_t i = 0; i < units.of.size(); ++i) {
    const LayerStackRange* stack = units.StackOf(i);
    const int64_t first = stack == nullptr ? units.of[i] : 1 + stack->first;
    const int64_t count = stack == nullptr ? 1 : stack->layers;
    for (int64_t u = first; u < first + count; ++u) {
      layouts[AsIndex(u)].push_back(plan.params[i].layout);
    }
  }
  std::map<std::vector<uint32_t>, size_t> known;
  std::vector<size_t> out;
  for (size_t u = 0; u < layouts.size(); ++u) {
    std::sort(layouts[u].begin(), layouts[u].end());
    // The first unit (the embedding) and the last unit (the head) differ from
    // all other units, so each of them gets a layout of its own.
    if (u == 0 || u + 1 == layouts.size()) {
      layouts[u].push_back(UINT32_MAX - static_cast<uint32_t>(u == 0));
    }
    out.push_back(known.try_emplace(layouts[u], known.size()).first->second);
  }
  return out;
}

}  // namespace shardc::cost
