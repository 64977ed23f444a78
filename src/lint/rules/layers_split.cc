// Reports scanned layers (layers stacked in one tensor) whose layer dimension
// is sharded. roles/layer_stacks.h finds this dimension:
//
//   verses/q_proj/kernel [32, 4096, 4096], verses/norm/scale [32, 4096]
//     ->  dimension 0 counts layers
//
// Nothing is reported if sizes and names do not determine which dimension
// counts layers.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "roles/layer_stacks.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Names of pipeline axes. These axes may shard the layer dimension, because
// each stage of a pipeline has some of the layers.
constexpr std::array<std::string_view, 6> kPipelines = {
    "pp", "pipe", "pipeline", "stage", "stages", "pipeline_parallel"};

}  // namespace

void CheckLayersSplit(const Facts& facts, FindingSink& sink) {
  const LayerStacks& stacks = facts.stacks();
  for (size_t g = 0; g < facts.groups().size(); ++g) {
    const ParameterGroup& group = facts.groups()[g];
    if (!facts.Judged(group)) continue;
    for (const ScannedDim& scanned : stacks.dims[g]) {
      const LayerStack& stack = stacks.stacks[scanned.stack];
      if (stack.confidence == StackConfidence::kUndecided) continue;
      AxisGroup axes = facts.AxesAt(group, scanned.dim);
      std::erase_if(axes, [](const std::string& axis) {
        return IsAmong(axis, kPipelines);
      });
      if (facts.mesh().Parts(axes).value_or(1) <= 1) continue;
      sink.push_back(GroupFinding(
          facts, kLayersSplit.code, group,
          "dimension " + std::to_string(scanned.dim) + " of " +
              ParametersText(facts, group) + " counts " +
              std::to_string(stack.layers) + " layers and is split over " +
              GroupText(axes) + ": every step of the scan gathers its layer",
          "leave the layer dimension unsharded, and split another one"));
    }
  }
}

}  // namespace shardc
