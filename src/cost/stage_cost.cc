// Divides the expected time of a stage into the three tasks of a micro-batch:
// the forward pass (F), the gradient of the input (I) and the gradient of the
// weights (W). The expected time is computed as for a separate model. For a
// matrix product the three tasks take the same time. For example:
//
//   products 3 s in 10 micro-batches  ->  F 0.1 s, I 0.1 s, W 0.1 s
//
// Attention has no weight, so its time belongs to F and I. The time of
// rematerialisation belongs to I. Half of the time of collectives belongs to F
// and half to I.
#include "cost/stage_cost.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "cost/communication.h"
#include "cost/expected.h"
#include "cost/memory.h"
#include "cost/peak.h"
#include "cost/rates.h"
#include "cost/stack.h"
#include "cost/time.h"

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
    forward += parts["products"] / 3 + parts["attention"] / (1 + back) +
               parts["other_operations"] / 3 + parts["expert_routing"] / 3 +
               parts["host"] / 3 + moved / 2;
    weight += parts["products"] / 3;
    all += parts["products"] + parts["attention"] + parts["other_operations"] +
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
  // The sources of these settings are listed in stack.cc.
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
  out.parameters = memory.most.Of(Component::kParameters);
  out.gradients = memory.most.Of(Component::kGradients);
  out.optimizer = memory.most.Of(Component::kOptimizer);
  const bool has_layers =
      std::min(end, units.layers + 1) > std::max<int64_t>(begin, 1);
  if (memory.activations && memory.weights) {
    out.peak = PeakOf(work, settings,
                      ActivationsOfUnits(*memory.activations, has_layers,
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

}  // namespace shardc::cost
