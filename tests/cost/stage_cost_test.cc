#include "cost/stage_cost.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "cost/memory.h"
#include "cost/models.h"
#include "cost/rates.h"

namespace shardc::cost {
namespace {

constexpr int64_t kLayers = 32;

// Returns the cost of units of a model of 32 layers: unit 0 has the embedding,
// unit 33 the head. The inputs are always those of the complete model.
StageCost CostOfUnits(int64_t begin, int64_t end, Settings settings = {}) {
  static const CostInputs kWork = BundledWork(
      "llama-3-8b.hf.manifest.json", "llama-3-8b", "fsdp:8", Mode::kTrain);
  settings.batch = 64;
  settings.length = 1024;
  StageUnits units{};
  units.layers = kLayers;
  return StageCostOf(kWork, settings, units, begin, end);
}

TEST_CASE("only stages with layers keep activations") {
  // The first layer is unit 1, the last one unit 32.
  CHECK(CostOfUnits(0, 1).peak.kept == 0);
  CHECK(CostOfUnits(0, 2).peak.kept > 0);
  CHECK(CostOfUnits(1, 2).peak.kept > 0);
  CHECK(CostOfUnits(32, 34).peak.kept > 0);
  CHECK(CostOfUnits(32, 33).peak.kept > 0);
  CHECK(CostOfUnits(33, 34).peak.kept == 0);
  CHECK(CostOfUnits(33, 34).peak.least_kept == 0);
  CHECK(CostOfUnits(33, 34).peak.layer == 0);
  CHECK(CostOfUnits(0, 34).begin == 0);
  CHECK(CostOfUnits(0, 34).end == 34);
}

TEST_CASE("only the stage with the last unit has logits") {
  CHECK(CostOfUnits(33, 34).peak.logits > 0);
  CHECK(CostOfUnits(0, 34).peak.logits == CostOfUnits(33, 34).peak.logits);
  CHECK(CostOfUnits(0, 33).peak.logits == 0);
  CHECK(CostOfUnits(1, 32).peak.logits == 0);
}

TEST_CASE("a stage has the loss or the backward pass of a layer at its peak") {
  const Peak last = CostOfUnits(17, 34).peak;
  CHECK(last.moment == Moment::kLoss);
  CHECK(last.working == 0);
  const Peak first = CostOfUnits(0, 17).peak;
  CHECK(first.moment == Moment::kBackward);
  CHECK(first.working == first.layer);
  CHECK(first.layer == last.layer);
}

TEST_CASE("recomputation keeps less and works in a layer") {
  Settings settings;
  const Peak plain = CostOfUnits(0, 34, settings).peak;
  std::string why;
  settings.remat = step::ParseRemat("nothing_saveable", why).value();
  const Peak remat = CostOfUnits(0, 34, settings).peak;
  CHECK(remat.kept < plain.kept);
  CHECK(remat.kept == remat.least_kept);
  CHECK(remat.layer > plain.layer);
  CHECK(CostOfUnits(33, 34, settings).peak.layer == 0);
}

TEST_CASE("the parts of a task add up to all of its operations") {
  // Without a profile a task has a third of the floating-point operations.
  Settings settings;
  settings.microbatches = 2;
  const StageCost cost = CostOfUnits(0, 34, settings);
  CHECK_FALSE(cost.timed);
  CHECK(cost.times.forward == cost.times.input);
  CHECK(cost.times.forward == cost.times.weight);
  CHECK(cost.after == 0);
  settings.microbatches = 4;
  const StageCost more = CostOfUnits(0, 34, settings);
  CHECK(std::abs(more.times.forward / cost.times.forward - 0.5) < 1e-9);
}

// Returns the bytes that a device sends in a step to gather weights, or to
// reduce-scatter their gradients, in one pass.
int64_t SentOf(const StageCost& cost, std::string_view part, bool backward) {
  int64_t out = 0;
  for (const Transfer& one : cost.communication.transfers) {
    if (one.part == part && one.backward == backward &&
        one.kind != Collective::kAllReduce) {
      out += one.sent;
    }
  }
  return out;
}

Settings Micro(int64_t microbatches, int zero = 0) {
  Settings out;
  out.microbatches = microbatches;
  out.zero = zero;
  return out;
}

Settings Staged(Settings settings, int64_t ranks = 4) {
  static const CostInputs kWork = BundledWork(
      "llama-3-8b.hf.manifest.json", "llama-3-8b", "fsdp:8", Mode::kTrain);
  return StageSettings(kWork, settings, ranks);
}

TEST_CASE("the weights of a stage are gathered and reduced once a step") {
  const StageCost each = CostOfUnits(0, 17, Micro(4));
  const StageCost once = CostOfUnits(0, 17, Staged(Micro(4)));
  CHECK(SentOf(each, "parameters", false) ==
        4 * SentOf(once, "parameters", false));
  CHECK(SentOf(each, "parameters", true) > 0);
  CHECK(SentOf(once, "parameters", true) == 0);
  CHECK(SentOf(each, "gradients", true) == 4 * SentOf(once, "gradients", true));
  const StageCost more = CostOfUnits(0, 17, Staged(Micro(8)));
  CHECK(more.communication.Sent(false) == once.communication.Sent(false));
  CHECK(more.communication.Sent(true) == once.communication.Sent(true));
}

TEST_CASE("the weights that a stage gathers once are held in addition") {
  const StageCost each = CostOfUnits(0, 34, Micro(4));
  const StageCost once = CostOfUnits(0, 34, Staged(Micro(4)));
  CHECK(each.gathered == 0);
  CHECK(each.peak.gathered > 0);
  CHECK(once.peak.gathered == 0);
  CHECK(once.parameters == each.parameters);
  CHECK(once.optimizer == each.optimizer);
  // On fsdp:8 all weights but those of norms are sharded.
  const int64_t norms = (2 * 32 + 1) * 4096 * 2;
  CHECK(once.gathered == 8 * (*each.parameters - norms));
  CHECK(*once.gradients == once.gathered + norms);
  CHECK(*once.States() ==
        *once.parameters + *once.gradients + *once.optimizer + once.gathered);
}

TEST_CASE("ZeRO stage 3 gathers what replicas hold once") {
  static const CostInputs kWork = BundledWork(
      "llama-3-8b.hf.manifest.json", "llama-3-8b", "dp:8", Mode::kTrain);
  StageUnits units{};
  units.layers = kLayers;
  const auto cost = [&](int zero) {
    Settings settings = Micro(4, zero);
    settings.batch = 64;
    settings.length = 1024;
    return StageCostOf(kWork, StageSettings(kWork, settings, 4), units, 0, 34);
  };
  const StageCost whole = cost(0), third = cost(3);
  CHECK(whole.gathered == 0);
  CHECK(third.gathered == whole.parameters);
  CHECK(third.gradients == whole.gradients);
  CHECK(*third.parameters * 8 == *whole.parameters);
}

TEST_CASE("weights are gathered for each micro-batch where software does so") {
  CHECK(Staged(Micro(4)).gathers_once);
  CHECK(Staged(Micro(4)).reduction == step::Reduction::kOnce);
  CHECK_FALSE(Staged(Micro(4), 1).gathers_once);
  CHECK(Staged(Micro(4), 1).reduction == step::Reduction::kSharded);
  CHECK(Staged(Micro(4, 2), 1).reduction == step::Reduction::kOnce);
  Settings settings = Micro(4);
  settings.reduction = step::Reduction::kEach;
  CHECK(Staged(settings).reduction == step::Reduction::kEach);
  settings = Micro(4);
  settings.stack = FindStack("xla");
  CHECK_FALSE(Staged(settings).gathers_once);
  CHECK(Staged(settings).reduction == step::Reduction::kSharded);
}

TEST_CASE("states are unknown if one of them is") {
  StageCost cost;
  cost.parameters = 1;
  cost.gradients = 2;
  CHECK_FALSE(cost.States());
  cost.optimizer = 4;
  CHECK(cost.States() == 7);
  cost.optimizer = INT64_MAX;
  CHECK_FALSE(cost.States());
  cost.optimizer = 4;
  cost.parameters.reset();
  CHECK_FALSE(cost.States());
  cost.parameters = 1;
  cost.gradients.reset();
  CHECK_FALSE(cost.States());
}

}  // namespace
}  // namespace shardc::cost
