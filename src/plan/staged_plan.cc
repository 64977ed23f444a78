// Finds the unit (a layer or an end of the model) of each parameter of a plan
// that was read, so that the costs of its pipeline can be computed. The plan
// states the stages of each parameter and the layers of each stage, but not the
// layer of a parameter. The layer is the number in the parameter's name. Layer
// l is unit l + 1, because unit 0 is the part of the model before the layers:
//
//   "model.layers.9.up.weight": {"stages": [1]}, stage 1 with layers [8, 16]
//     ->  layer 9, unit 10
//   "lm_head.weight": {"stages": [3]}, stage 3 with the part `last`
//     ->  the last unit
#include "plan/staged_plan.h"
#include "plan/plan_parameters.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/name.h"
#include "plan/stage_units.h"
#include "roles/layer_stacks.h"
#include "schedule/schedules.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

class PlanStager {
 public:
  PlanStager(const ReadPlan& view, Findings& findings)
      : view_(view),
        stages_(*view.stages),
        place_(view.mesh_place),
        findings_(findings) {}

  std::optional<StagedPlan> Run(const PlanSchedule& given) {
    FindSeparator();
    FillPlan();
    PlannedStages& to = out_.stages;
    to.axis = stages_.axis;
    to.place = place_;
    to.sized = true;
    if (!ReadTable(given)) return std::nullopt;
    ReadUnits();
    to.bounds.push_back(0);
    for (size_t s = 1; s < stages_.of.size(); ++s) {
      to.bounds.push_back(1 + stages_.of[s].layers.first);
    }
    to.bounds.push_back(to.units.count());
    return std::move(out_);
  }

 private:
  void FindSeparator() {
    for (const ReadParam& param : view_.params) {
      if (param.name.find('/') != std::string::npos) out_.separator = '/';
    }
  }

  void FillPlan() {
    Plan& plan = out_.plan;
    plan.mesh = view_.mesh;
    plan.modes = {Mode::kTrain};
    plan.placement_axes.resize(view_.rules.size());
    std::map<std::string, uint32_t> known;
    for (const ReadParam& param : view_.params) {
      out_.names.emplace_back(param.name);
      const int32_t rule = param.rule;
      const auto [at, added] = known.try_emplace(
          LayoutKey(param, rule), static_cast<uint32_t>(plan.layouts.size()));
      if (added) AddLayout(param, rule);
      PlannedParam own;
      own.layout = at->second;
      if (param.placement && rule >= 0) {
        plan.placement_axes[AsIndex(rule)] = param.placement->axis;
        plan.Place(own, param.placement->coordinate);
      }
      plan.params.push_back(own);
    }
    plan.names = out_.names;
  }

  // Returns the key of a parameter's layout. Parameters with equal keys share
  // one layout.
  static std::string LayoutKey(const ReadParam& param, int32_t rule) {
    std::string out = std::to_string(rule) + "\n";
    if (param.type.shape) out += ShapeText(*param.type.shape);
    out += "\n";
    if (param.type.dtype) out += DtypeName(*param.type.dtype);
    out += "\n" + SpecText(param.spec);
    for (const auto& [mode, spec] : param.modes) {
      out += "\n" + std::string(ModeName(mode)) + SpecText(spec);
    }
    return out;
  }

  void AddLayout(const ReadParam& param, int32_t rule) {
    ParamLayout layout;
    layout.rule = rule;
    layout.type = static_cast<uint32_t>(out_.plan.types.size());
    layout.modes.resize(1);
    layout.modes[0].spec = param.spec;
    out_.plan.types.push_back(param.type);
    out_.plan.layouts.push_back(std::move(layout));
  }

  bool Refuse(const Code& code, std::string message, std::string_view help) {
    findings_.Add(code, place_, std::move(message), std::string(help));
    return false;
  }

  // Makes the table of the plan's schedule, or reads the table from the
  // schedule's file. The plan has only the digest of its table, so the digests
  // are compared. Returns false after a finding.
  bool ReadTable(const PlanSchedule& given) {
    PlannedStages& to = out_.stages;
    const auto own = static_cast<int32_t>(
        std::min<int64_t>(stages_.microbatches, INT32_MAX));
    const int32_t count = given.microbatches.value_or(own);
    ScheduleRequest request;
    request.name = given.file.empty() ? stages_.schedule : given.file;
    request.is_file = !given.file.empty();
    request.ranks = static_cast<int32_t>(stages_.ranks);
    request.microbatches = count;
    request.place = request.virtual_place = place_;
    if (!request.is_file) {
      if (schedule::FindSchedule(request.name) == nullptr) {
        return Refuse(code::kUsage,
                      "the schedule of the plan is the file " +
                          ShortQuote(request.name) +
                          ", of which the plan has the digest alone",
                      "give the file with `--schedule FILE`");
      }
      request.virtual_stages = static_cast<int32_t>(
          std::min<int64_t>(stages_.virtual_stages, INT32_MAX));
    }
    auto table = MakeScheduleTable(request, findings_);
    if (!table) return false;
    if (table->ranks() != stages_.ranks ||
        AsIndex(table->stages) != stages_.of.size() ||
        (count == own && TableDigest(*table) != stages_.table)) {
      return Refuse(code::kUsage,
                    "the schedule " + ShortQuote(request.name) +
                        " has another table than the one that the plan was "
                        "made with",
                    request.is_file
                        ? "give the file of the plan's schedule"
                        : "write the plan again with `shardc plan -o FILE`");
    }
    to.table = std::move(*table);
    return true;
  }

  void ReadUnits() {
    StageUnits& units = out_.stages.units;
    units.layers = stages_.of.back().layers.end;
    const auto& params = view_.params;
    bool has_head = false, stacked = false;
    const facts::ParameterTable table = ParametersOf(view_, out_.separator);
    for (size_t i = 0; i < params.size(); ++i) {
      const ReadParam& param = params[i];
      stacked = stacked || param.stages.dim;
      const ParameterRole& role = table.Of(i).role();
      if (param.stages.dim) {
        AddStack(param.stages);
      } else {
        units.of.push_back(UnitOf(param, role));
      }
      units.stack_of.resize(units.of.size());
      const bool end =
          units.of.back() == 0 || units.of.back() == units.layers + 1;
      has_head = has_head || (end && role.module_role == Role::kHead);
      units.tied.push_back(units.of.back() == 0 &&
                           role.module_role == Role::kEmbedding);
    }
    if (has_head) std::fill(units.tied.begin(), units.tied.end(), false);
    if (!stacked) units.stack_of.clear();
    PlaceStacks();
  }

  // Returns the unit of a parameter that is not a layer stack. If the number in
  // the name is a layer of the parameter's stage, the unit is this layer.
  // Otherwise it is the first unit of the model (the embeddings) or the last
  // unit (the head), if the stage has that unit. If the stage has neither, the
  // first layer of the stage is assumed.
  int64_t UnitOf(const ReadParam& param, const ParameterRole& role) {
    const PlanStage& own = stages_.of[AsIndex(param.stages.of.front().stage)];
    const auto layer = LayerOf(param.name, out_.separator);
    if (layer && layer->layer >= own.layers.first &&
        layer->layer < own.layers.end) {
      return 1 + layer->layer;
    }
    if (own.first && (!own.last || IsBeforeLayers(role, param.name))) return 0;
    if (own.last) return 1 + out_.stages.units.layers;
    out_.layers_known = false;
    return 1 + own.layers.first;
  }

  void AddStack(const ParamStages& own) {
    StageUnits& units = out_.stages.units;
    LayerStackRange stack;
    stack.dim = static_cast<int>(*own.dim);
    stack.dims = static_cast<int>(own.dims);
    stack.layers = own.layers;
    stack.first = FirstLayer(own);
    const auto at = std::find_if(
        units.stacks.begin(), units.stacks.end(),
        [&](const LayerStackRange& other) {
          return std::tie(other.dim, other.dims, other.layers, other.first) ==
                 std::tie(stack.dim, stack.dims, stack.layers, stack.first);
        });
    units.stack_of.resize(units.of.size());
    units.stack_of.push_back(static_cast<uint32_t>(at - units.stacks.begin()));
    units.of.push_back(StageUnits::kStacked);
    if (at == units.stacks.end()) units.stacks.push_back(stack);
  }

  // Returns the first layer of a layer stack. If a stage has only a part of the
  // stack, that part shows where the stack begins. Otherwise a single stage s
  // has the complete stack, and the placeholder -1 - s is returned.
  // PlaceStacks() replaces it.
  int64_t FirstLayer(const ParamStages& own) const {
    for (const StageShare& share : own.of) {
      const LayerRange& layers = stages_.of[AsIndex(share.stage)].layers;
      if (share.begin > 0) return layers.first - share.begin;
      if (share.end < own.layers) return layers.end - share.end;
    }
    return -1 - own.of.front().stage;
  }

  // Finds the layers of stacks that a single stage has completely. The plan
  // does not state these layers. They are the layers of the stage that belong
  // to no stack whose layers are known.
  void PlaceStacks() {
    auto& stacks = out_.stages.units.stacks;
    const std::vector<LayerStackRange> found = stacks;
    for (LayerStackRange& stack : stacks) {
      if (stack.first >= 0) continue;
      const LayerRange& own = stages_.of[AsIndex(-1 - stack.first)].layers;
      std::vector<int64_t> free;
      for (int64_t layer = own.first; layer < own.end; ++layer) {
        const bool taken = std::any_of(
            found.begin(), found.end(), [&](const LayerStackRange& other) {
              return other.first >= 0 && layer >= other.first &&
                     layer < other.first + other.layers;
            });
        if (!taken) free.push_back(layer);
      }
      // If one stage has several such stacks, their layers cannot be
      // distinguished.
      const bool known = std::ssize(free) == stack.layers;
      out_.layers_known = out_.layers_known && known;
      stack.first = known ? free.front() : own.first;
    }
  }

  const ReadPlan& view_;
  const PlanStages& stages_;
  const Place place_;
  Findings& findings_;
  StagedPlan out_;
};

}  // namespace

std::optional<StagedPlan> StagedPlanOf(const ReadPlan& view,
                                       const PlanSchedule& given,
                                       Findings& findings) {
  return PlanStager(view, findings).Run(given);
}

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
