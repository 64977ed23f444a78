// Expresses the stages of a parameter by a placement or a spec, for those parts
// of the program that do not know stages. A parameter of one rank is placed at
// this rank's coordinate on the axis of the stages. A layer stack is sharded
// over this axis. For example, on a mesh of pp 2 and tp 4, pp is the axis of
// the stages:
//
//   layers.0.up with the spec ["tp"], in stage 0 on rank 0
//     ->  ["tp"], placed at coordinate 0 of pp
//   layers/up [32, 8], a stack with 16 layers in each of two stages
//     ->  ["pp"]
#include "plan/without_stages.h"

#include <algorithm>
#include <string>
#include <utility>

#include "source/index.h"

namespace shardc {
namespace {

// Returns whether the layers are divided evenly over the ranks in ascending
// order, as a spec would shard them. This is always so if the layers extend
// over the dimensions [virtual stages, ranks, layers of a stage], because each
// rank then has one index of the second dimension.
bool IsEven(const PlanStages& stages, const ParamStages& param) {
  if (param.dims > 1) return true;
  if (std::ssize(param.of) != stages.ranks) return false;
  for (size_t i = 0; i < param.of.size(); ++i) {
    const StageShare& share = param.of[i];
    const auto& ranks = stages.of[AsIndex(share.stage)].ranks;
    const bool in_order = ranks.size() == 1 && AsIndex(ranks.front()) == i;
    const int64_t layers = share.end - share.begin;
    if (!in_order || layers * stages.ranks != param.layers) return false;
  }
  return true;
}

void ShardOver(const std::string& axis, const ParamStages& param, Spec& spec) {
  const size_t dim = AsIndex(*param.dim) + (param.dims > 1 ? 1 : 0);
  spec.resize(std::max(spec.size(), dim + 1));
  spec[dim].insert(spec[dim].begin(), axis);
}

}  // namespace

bool TakeStagesAway(const PlanStages& stages, ReadParam& param) {
  const ParamStages own = std::move(param.stages);
  param.stages = {};
  if (own.dim) {
    if (!IsEven(stages, own)) return false;
    ShardOver(stages.axis, own, param.spec);
    for (auto& [mode, spec] : param.modes) ShardOver(stages.axis, own, spec);
    return true;
  }
  const auto ranks = RanksOf(stages, own);
  if (std::ssize(ranks) == stages.ranks) return true;
  if (ranks.size() != 1 || param.placement) return false;
  param.placement = {stages.axis, ranks.front()};
  return true;
}

DrawnParam DrawnWithoutStages(const PlanStages& stages,
                              const ReadParam& param) {
  DrawnParam out{param, std::nullopt};
  if (TakeStagesAway(stages, out.param)) return out;
  const auto ranks = RanksOf(stages, param.stages);
  if (ranks.empty()) return out;
  out.rank = {stages.axis, ranks.front()};
  if (param.stages.dim && out.param.type.shape) {
    (*out.param.type.shape)[AsIndex(*param.stages.dim)] =
        LayersOnRank(stages, param.stages, ranks.front());
  }
  return out;
}

}  // namespace shardc
