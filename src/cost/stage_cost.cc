// Divides the expected time of a stage into the three tasks of a micro-batch:
// the forward pass (F), the gradient of the input (I) and the gradient of the
// weights (W). The expected time is computed as for a separate model. For a
// matmul the three tasks take the same time. For example:
//
//   matmuls 3 s in 10 micro-batches  ->  F 0.1 s, I 0.1 s, W 0.1 s
//
// Attention has no weight, so its time belongs to F and I. The time of
// rematerialisation belongs to I. Half of the time of collectives belongs to F
// and half to I.
#include "cost/stage_cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cost/communication.h"
#include "cost/expected.h"
#include "cost/memory.h"
#include "cost/next_token.h"
#include "cost/rates.h"
#include "cost/time.h"
#include "plan/placement.h"
#include "plan/representatives.h"
#include "source/size.h"

namespace shardc::cost {
namespace {

// Divides the seconds of all micro-batches of a stage into the tasks of one
// micro-batch. Without an expected time, divides the floating-point operations
// instead.
void SetTimes(const CostInputs& work, const Settings& settings,
              const Memory& memory, bool has_layers, StageCost& out) {
  out.communication = CommunicationOf(work, settings);
  Communication& moves = out.communication;
  TimeOf(work, settings, memory, moves);
  const double micro = Real(settings.microbatches);
  const auto expected = ExpectedTimeOf(work, settings, memory, moves);
  if (!expected) {
    const double flops = FlopsOf(work, settings, memory).value_or(0) / micro;
    out.times = {flops / 3, flops / 3, flops / 3};
    return;
  }
  out.timed = true;
  out.least = expected->least / expected->seconds;
  out.most = expected->most / expected->seconds;
  std::map<std::string_view, double> parts;
  for (const TimePart& part : expected->parts) {
    parts[part.name] = part.seconds;
  }
  const double scale =
      1 + parts["scale"] / std::max(1e-30, expected->seconds - parts["scale"]);
  const bool unfused = IsUnfused(settings, StackOf(work, settings));
  const double back = unfused ? kUnfusedBackward : kFlashBackward;
  const double head = parts["head_and_loss"] / 3;
  double forward = head, weight = head, all = parts["head_and_loss"];
  if (has_layers) {
    const double moved =
        parts["tensor_collectives"] + parts["weight_collectives"] +
        parts["context_collectives"] + parts["expert_collectives"];
    forward += parts["matmuls"] / 3 + parts["attention"] / (1 + back) +
               parts["other_operations"] / 3 + parts["expert_routing"] / 3 +
               parts["host"] / 3 + moved / 2;
    weight += parts["matmuls"] / 3;
    all += parts["matmuls"] + parts["attention"] + parts["other_operations"] +
           parts["recomputation"] + moved + parts["expert_routing"] +
           parts["host"];
  }
  out.times = {forward * scale / micro,
               (all - forward - weight) * scale / micro,
               weight * scale / micro};
  out.after = (parts["gradients"] + parts["optimizer"]) * scale;
}

// Returns the activations of a stage. If the stage has no layers, the tensors
// of layers are removed. If it lacks the last unit, which is the head, the
// logits are removed.
Activations ActivationsOfUnits(Activations all, bool has_layers,
                               bool has_last) {
  if (!has_layers) {
    all.tensors.clear();
    all.kept = all.working = 0;
  }
  if (!has_last) {
    all.logits.reset();
    all.logits_sharded = false;
  }
  return all;
}

}  // namespace

std::optional<int64_t> StageCost::States() const {
  if (!parameters || !gradients || !optimizer) return std::nullopt;
  return (Size(*parameters) + *gradients + *optimizer + gathered).Checked();
}

Settings StageSettings(const CostInputs& work, Settings settings,
                       int64_t ranks) {
  settings.gathers_once =
      ranks > 1 && StackOf(work, settings).gathers_stages_once;
  // The sources of these settings are listed in rates.cc.
  const bool once = settings.gathers_once || settings.zero == 2;
  if (once && settings.reduction == step::Reduction::kSharded) {
    settings.reduction = step::Reduction::kOnce;
  }
  return settings;
}

StageCost StageCostOf(const CostInputs& work, const Settings& settings,
                      const StageUnits& units, int64_t begin, int64_t end) {
  StageCost out;
  out.begin = begin;
  out.end = end;
  const Memory memory = MemoryOf(work, settings);
  out.unknown = work.not_known;
  out.lacking = MissingNextTokenLayers(work);
  out.parameters = memory.most.Of(Component::kParameters);
  out.gradients = memory.most.Of(Component::kGradients);
  out.optimizer = memory.most.Of(Component::kOptimizer);
  const auto& further = work.next_token_params;
  const bool has_layers =
      std::min(end, units.layers + 1) > std::max<int64_t>(begin, 1);
  out.sums_known = !memory.activations || memory.activations->sums_known;
  if (memory.activations && memory.weights) {
    out.peak = PeakOf(
        work, settings,
        ActivationsOfUnits(*memory.activations, has_layers || !further.empty(),
                           end == units.count()),
        *memory.weights);
    out.gathered = memory.weights->held;
    out.logits_known = end < units.count() || memory.activations->logits;
  } else {
    NotKnown why;
    if (!memory.activations && !ActivationsOf(work, settings, why)) {
      out.unknown.push_back(std::move(why));
    }
    out.peak.gathered = memory.most.Of(Component::kGathered).value_or(0);
    out.peak.most = out.peak.gathered;
  }
  SetTimes(work, settings, memory, has_layers, out);
  return out;
}

// Makes the inputs of the cost model for one pipeline stage. Parameters of
// other stages are left out. A tensor may stack the layers of several stages in
// one dimension. It is replaced by a smaller tensor, which has only the layers
// of this stage. For example, for the stage with the first 8 of 32 layers:
//
//   layers/up/kernel [32, 4096, 14336]  ->  [8, 4096, 14336]

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

// Sets the layers of a stage that predict further tokens. The last stage has
// all of them. If `copies`, it has a copy of the embedding too, unless the head
// shares one.
void AddNextTokenLayers(const CostInputs& all, bool copies, bool last,
                        CostInputs& stage) {
  if (!last) {
    stage.next_token_layers = 0;
    stage.next_token_params.clear();
  }
  const ParamClass* const table = all.Find(Role::kEmbedding);
  if (!copies || stage.next_token_params.empty() || table == nullptr ||
      stage.Find(Role::kEmbedding) != nullptr) {
    return;
  }
  stage.next_token_params.push_back(*table);
  // The head does not share the copy.
  stage.next_token_params.back().role.module_role = Role::kPosition;
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
  AddNextTokenLayers(all, begin > 0 && copies, last, out);
  if (!last) {
    for (ParamClass& param : out.params) {
      if (param.role.module_role == Role::kEmbedding) {
        param.role.module_role = Role::kPosition;
      }
    }
  }
  return out;
}

CostInputs StagedPlanInputs(const ReadPlan& plan,
                            std::optional<ModelConfig> model) {
  CostInputs out = MakeCostInputs(plan, std::move(model), Mode::kTrain);
  if (plan.stages && plan.stages->hidden) {
    out.hidden = *plan.stages->hidden;
    out.hidden_known = true;
  }
  if (out.hidden_known) return out;
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
