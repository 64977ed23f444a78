// Divides a model into stages. With `assign: cost`, the largest stage gets as
// few multiplications for one token as possible. A weight causes one
// multiplication for each of its elements. An embedding adds 0, because it is
// only looked up, and experts that a token does not use add nothing. For
// example, four stages divide an embedding, 32 layers and an output head. A
// layer counts as 1, and this head has 2.4 times the weights of a layer:
//
//   0 + 8 | 9 | 9 | 6 + 2.4   the largest stage has 9
#include "plan/planned_stages.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "facts/parameters.h"
#include "plan/axis_facts.h"
#include "plan/compile.h"
#include "plan/placement.h"
#include "plan/stage_units.h"
#include "resolve/resolve.h"
#include "roles/classify.h"
#include "source/finding.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// The limit on the steps of the search for the best division into stages. The
// search takes stages * units^2 steps, where the units are the embedding, each
// layer, and the head.
constexpr int64_t kMostSteps = int64_t{1} << 32;

class Planner {
 public:
  Planner(const Compiled& compiled, const ModelConfig* config,
          const StageRequest& request, Findings& findings)
      : compiled_(compiled),
        config_(config),
        request_(request),
        findings_(findings) {}

  std::optional<PlannedStages> Run() {
    if (!CheckSpecs() || !CheckTokens()) return std::nullopt;
    auto units = StageUnitsOf(compiled_, request_, findings_);
    if (!units) return std::nullopt;
    out_.units = std::move(*units);
    out_.axis = request_.axis;
    out_.table = request_.table;
    out_.copies = request_.copies;
    out_.listed = !request_.layers.empty();
    out_.sized = request_.declared && (request_.declared->microbatches ||
                                       request_.declared->schedule_is_file);
    out_.place =
        request_.declared ? request_.declared->place : request_.axis_place;
    out_.weights = Weights();
    out_.balance = request_.balance;
    if (!CheckCounts() || !Cut() || !CheckStacks() || !CheckShares() ||
        !CheckTied()) {
      return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  const ParamLayout& LayoutOf(size_t param) const {
    return compiled_.plan.layouts[compiled_.plan.params[param].layout];
  }

  bool SplitsOverAxis(const ParamLayout& layout) const {
    return std::any_of(
        layout.modes.begin(), layout.modes.end(), [&](const ModeLayout& mode) {
          return std::any_of(mode.spec.begin(), mode.spec.end(),
                             [&](const AxisGroup& axes) {
                               return IsAmong(request_.axis, axes);
                             });
        });
  }

  bool CheckSpecs() {
    std::vector<std::string> names;
    int32_t rule = -1;
    for (size_t i = 0; i < compiled_.plan.params.size(); ++i) {
      const ParamLayout& layout = LayoutOf(i);
      if (!SplitsOverAxis(layout)) continue;
      if (names.empty()) rule = layout.rule;
      names.emplace_back(compiled_.plan.names[i]);
    }
    if (names.empty()) return true;
    const int64_t more = std::ssize(names) - 1;
    Finding& finding = findings_.Add(
        code::kStageAxisInSpec, request_.axis_place,
        "`" + request_.axis + "` is the axis of the stages, and the spec of " +
            ShortQuote(names[0]) + " splits over it" +
            (more > 0
                 ? ", as those of " + Counted(more, "other parameter") + " do"
                 : ""),
        "a stage holds its parameters on the mesh without that axis: take the "
        "axis out of the rules");
    if (rule >= 0) {
      finding.labels.push_back({compiled_.rules.rules[AsIndex(rule)].place,
                                "this rule splits over it"});
    }
    finding.params = std::move(names);
    return false;
  }

  bool CheckTokens() {
    for (const AttentionTensor& tensor :
         AttentionSpecs(*compiled_.resolver, Mode::kTrain, {})) {
      if (tensor.name != "query") continue;
      const Spec& spec = tensor.resolved.spec;
      for (size_t dim = 0; dim < std::min<size_t>(2, spec.size()); ++dim) {
        if (!IsAmong(request_.axis, spec[dim])) continue;
        findings_.Add(code::kStageAxisInSpec, request_.axis_place,
                      "`" + request_.axis +
                          "` is the axis of the stages, and the axis rules "
                          "split the tokens over it",
                      "take the axis out of `batch` and `sequence`");
        return false;
      }
    }
    return true;
  }

  bool CheckCounts() {
    const int64_t stages = request_.table.stages;
    if (!request_.layers.empty()) {
      const Size sum =
          std::accumulate(request_.layers.begin(), request_.layers.end(),
                          Size(0), [](Size a, int64_t b) { return a + b; });
      if (std::ssize(request_.layers) != stages ||
          sum.value() != out_.units.layers) {
        findings_.Add(
            code::kLayerWithoutStage, request_.layers_place,
            request_.layers_name + " has " + CountText(sum.value()) +
                " layers in " + Counted(std::ssize(request_.layers), "stage") +
                ", and the model has " + CountText(out_.units.layers) +
                " for " + Counted(stages, "stage"),
            "give a number of layers for each stage, with the sum of the "
            "model's layers");
        return false;
      }
    }
    if (stages <= out_.units.count()) return true;
    findings_.Add(code::kScheduleRefuses, request_.axis_place,
                  Counted(stages, "stage") + " are more than " +
                      CountText(out_.units.layers) +
                      " layers, an embedding and a head",
                  "give fewer ranks or virtual stages");
    return false;
  }

  bool Cut() {
    const int64_t stages = request_.table.stages;
    out_.bounds = schedule::EvenStages(out_.units.layers, stages);
    if (out_.listed) {
      int64_t end = 1;
      for (size_t s = 0; s < request_.layers.size(); ++s) {
        end += request_.layers[s];
        out_.bounds[s + 1] = end;
      }
      out_.bounds.back() = out_.units.count();
      return true;
    }
    if (request_.balance != StageBalance::kWeights) return true;
    const int64_t units = out_.units.count();
    if ((Size(stages) * units * units).value() > kMostSteps) {
      findings_.Add(code::kLimit, request_.layers_place,
                    "the division of " + CountText(out_.units.layers) +
                        " layers into " + Counted(stages, "stage") +
                        " takes too long to search for",
                    "write `assign: even`, or a number for each stage");
      return false;
    }
    const std::vector<int64_t> nothing(AsIndex(stages), 0);
    if (auto bounds =
            schedule::AssignUnits(out_.weights, nothing, std::nullopt)) {
      out_.bounds = std::move(*bounds);
    }
    return true;
  }

  // Returns the fraction of a parameter's elements that are multiplied for one
  // token. For an expert it is the fraction of experts that a token uses.
  // Returns 1 if the configuration does not state this fraction.
  double UsedPart(const ParameterRole& role) const {
    if (!role.expert || role.shared_expert || config_ == nullptr ||
        !config_->experts || !config_->experts_per_token) {
      return 1;
    }
    return static_cast<double>(*config_->experts_per_token) /
           static_cast<double>(std::max<int64_t>(1, *config_->experts));
  }

  std::vector<schedule::Unit> Weights() const {
    std::vector<schedule::Unit> out(AsIndex(out_.units.count()));
    const facts::ParameterTable& table = compiled_.Parameters();
    for (size_t i = 0; i < compiled_.plan.params.size(); ++i) {
      const ParamLayout& layout = LayoutOf(i);
      const TensorType& type = compiled_.plan.types[layout.type];
      if (!type.shape) continue;
      const LayerStackRange* stack = out_.units.StackOf(i);
      Size elements = 1;
      for (const int64_t size : *type.shape) elements *= size;
      const int64_t layers =
          stack == nullptr ? 1 : std::max<int64_t>(1, stack->layers);
      const bool matrix =
          std::ssize(*type.shape) - (stack == nullptr ? 0 : 1) >= 2;
      const facts::Group& group = table.Of(i);
      const ParameterRole& role = group.role();
      const bool applied = matrix && !group.skipped;
      const double time = applied
                              ? static_cast<double>(elements.value()) *
                                    UsedPart(role) / static_cast<double>(layers)
                              : 0;
      const int64_t bytes =
          layout.modes.front().bytes_per_device.value_or(0) / layers;
      const bool looked_up =
          role.module_role == Role::kEmbedding || role.role == Role::kPosition;
      const int64_t first =
          stack == nullptr ? out_.units.of[i] : 1 + stack->first;
      for (int64_t u = first; u < first + layers; ++u) {
        schedule::Unit& unit = out[AsIndex(u)];
        unit.time += looked_up ? 0 : time;
        unit.bytes = (Size(unit.bytes) + bytes).value();
      }
      if (out_.units.tied[i]) out.back().time += time;
    }
    return out;
  }

  // Returns whether a spec can express which layers of a layer stack a rank
  // has. Three conditions must hold. The dimensions from `dim` on are [virtual
  // stages, ranks, layers of a stage]. Stage s is on rank s mod p, where p is
  // the number of ranks. All stages have the same number of layers.
  bool IsStridedAs(const Shape& shape, int dim) const {
    const schedule::Table& table = request_.table;
    const int64_t stages = table.stages / table.ranks();
    const size_t at = AsIndex(dim);
    if (table.placement != schedule::Placement::kLoop ||
        dim + 2 >= std::ssize(shape) || shape[at] != stages ||
        shape[at + 1] != table.ranks()) {
      return false;
    }
    for (int32_t s = 0; s < table.stages; ++s) {
      if (out_.LayersOf(s).count() != shape[at + 2]) return false;
    }
    return true;
  }

  bool CheckStacks() {
    const schedule::Table& table = request_.table;
    // True if each rank has at most one stage, and so one range of layers. This
    // is not known for a schedule from a file (kListed), in which some ranks
    // may have more stages than others.
    const bool one_range = table.stages <= table.ranks() &&
                           table.placement != schedule::Placement::kBoth &&
                           table.placement != schedule::Placement::kListed;
    if (one_range || out_.units.stacks.empty()) return true;
    for (size_t i = 0; i < out_.units.of.size(); ++i) {
      const LayerStackRange* stack = out_.units.StackOf(i);
      if (stack == nullptr) continue;
      const auto& shape = compiled_.plan.types[LayoutOf(i).type].shape;
      if (shape && IsStridedAs(*shape, stack->dim)) continue;
      AddStacked(i, *stack);
      return false;
    }
    return true;
  }

  void AddStacked(size_t param, const LayerStackRange& stack) {
    const schedule::Table& table = request_.table;
    // The message names the rank that has the most stages; if there are several
    // such ranks, the first one.
    std::map<int32_t, std::vector<int32_t>> held;
    for (int32_t s = 0; s < table.stages; ++s) {
      for (const int32_t rank : out_.RanksOf(s)) held[rank].push_back(s);
    }
    const auto fullest = std::max_element(
        held.begin(), held.end(),
        [](auto& a, auto& b) { return a.second.size() < b.second.size(); });
    const std::string layers =
        Join(First(fullest->second, 2), " and ",
             [&](int32_t stage) { return LayersText(out_.LayersOf(stage)); });
    const int64_t stages = table.stages / table.ranks();
    const int64_t each = stack.layers / table.stages;
    const bool loop = table.placement == schedule::Placement::kLoop;
    Finding& finding = findings_.Add(
        code::kStackedVirtual,
        (*request_.declared->stacked)[out_.units.stack_of[param]].match.place,
        ShortQuote(compiled_.plan.names[param]) + " holds " +
            Counted(stack.layers, "layer") + " in dimension " +
            std::to_string(stack.dim) + ", and `" + table.name + "` takes " +
            layers + " to rank " + std::to_string(fullest->first) +
            ", which no spec over that dimension states",
        loop && stages * table.ranks() == table.stages &&
                each * table.stages == stack.layers
            ? "store the layers as [" + std::to_string(stages) + ", " +
                  std::to_string(table.ranks()) + ", " + std::to_string(each) +
                  ", ...], with `assign: even`"
            : "take a schedule with one stage on a rank, such as 1f1b");
    finding.params.emplace_back(compiled_.plan.names[param]);
  }

  // Checks the axes that shard the layer dimension of a layer stack: they must
  // divide the number of layers of each stage. If the layers extend over the
  // three dimensions [virtual stages, ranks, layers of a stage], the dimension
  // of ranks is checked. A stage has one element of it, so no axis of several
  // devices may shard it.
  bool CheckShares() {
    for (size_t i = 0; i < out_.units.of.size(); ++i) {
      const LayerStackRange* stack = out_.units.StackOf(i);
      if (stack == nullptr) continue;
      const size_t dim = AsIndex(stack->dim) + (stack->dims > 1 ? 1 : 0);
      for (const ModeLayout& mode : LayoutOf(i).modes) {
        if (dim >= mode.spec.size()) continue;
        const int64_t parts =
            compiled_.plan.mesh.Parts(mode.spec[dim]).value_or(1);
        for (const StageShare& share : out_.SharesOf(i)) {
          const int64_t size = stack->dims > 1 ? 1 : share.end - share.begin;
          if (size % parts == 0) continue;
          AddIndivisible(i, mode.spec[dim], dim, share.stage, size);
          return false;
        }
      }
    }
    return true;
  }

  void AddIndivisible(size_t param, const AxisGroup& axes, size_t dim,
                      int32_t stage, int64_t size) {
    const int64_t parts = compiled_.plan.mesh.Parts(axes).value_or(1);
    Finding& finding = findings_.Add(
        code::kStackedVirtual,
        (*request_.declared->stacked)[out_.units.stack_of[param]].match.place,
        "dimension " + std::to_string(dim) + " of " +
            ShortQuote(compiled_.plan.names[param]) + " is " + CountText(size) +
            " in stage " + std::to_string(stage) + ", and " + GroupText(axes) +
            " has " + CountText(parts) + ": " + CountText(size) + " % " +
            CountText(parts) + " = " + CountText(size % parts),
        "take the axes out of that dimension in the rules, or give each stage "
        "a number of layers that they divide with `assign`");
    const int32_t rule = LayoutOf(param).rule;
    if (rule >= 0) {
      finding.labels.push_back({compiled_.rules.rules[AsIndex(rule)].place,
                                "this rule splits the layers"});
    }
    finding.params.emplace_back(compiled_.plan.names[param]);
  }

  bool CheckTied() {
    if (request_.copies || request_.table.stages == 1) return true;
    const auto tied =
        std::find(out_.units.tied.begin(), out_.units.tied.end(), true);
    if (tied == out_.units.tied.end()) return true;
    const int32_t last = request_.table.stages - 1;
    for (const int32_t rank : out_.RanksOf(last)) {
      if (request_.table.Holds(rank, 0)) continue;
      const auto param = static_cast<size_t>(tied - out_.units.tied.begin());
      Finding& finding = findings_.Add(
          code::kTiedOverStages, request_.tied_place,
          "the head is " + ShortQuote(compiled_.plan.names[param]) +
              ", and stages 0 and " + std::to_string(last) + " are on ranks " +
              std::to_string(out_.RanksOf(0).front()) + " and " +
              std::to_string(rank),
          "write `tied: copies`, so that both ranks hold it and add their "
          "gradients");
      finding.params.emplace_back(compiled_.plan.names[param]);
      return false;
    }
    return true;
  }

  const Compiled& compiled_;
  const ModelConfig* config_;  // The model's config.json; may be null.
  const StageRequest& request_;
  Findings& findings_;
  PlannedStages out_;
};

}  // namespace

LayerRange PlannedStages::LayersOf(int32_t stage) const {
  const size_t s = AsIndex(stage);
  return LayersIn(bounds[s], bounds[s + 1], units.layers);
}

std::vector<StageShare> PlannedStages::SharesOf(size_t param) const {
  std::vector<StageShare> out;
  if (const LayerStackRange* stack = units.StackOf(param)) {
    for (int32_t s = 0; s < stages(); ++s) {
      const LayerRange own = LayersOf(s);
      const int64_t begin = std::max(own.first, stack->first);
      const int64_t end = std::min(own.end, stack->first + stack->layers);
      if (begin < end) {
        out.push_back({s, begin - stack->first, end - stack->first});
      }
    }
    return out;
  }
  // The stage of the unit is the last stage that begins at the unit or before
  // it. If several stages begin at the same unit, all of them except the last
  // are empty.
  const auto after =
      std::upper_bound(bounds.begin(), bounds.end() - 1, units.of[param]);
  out.push_back({static_cast<int32_t>(after - bounds.begin()) - 1});
  if (units.tied[param] && copies && out[0].stage != stages() - 1) {
    out.push_back({stages() - 1});
  }
  return out;
}

std::vector<int32_t> PlannedStages::RanksOf(int32_t stage) const {
  const bool one = table.placement == schedule::Placement::kLoop ||
                   table.placement == schedule::Placement::kV;
  std::vector<int32_t> out;
  for (int32_t micro = 0; micro < (one ? 1 : table.microbatches); ++micro) {
    const int32_t rank = table.RankOf(stage, micro);
    AddOnce(out, rank);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<PlannedStages> DivideIntoStages(const Compiled& compiled,
                                              const ModelConfig* config,
                                              const StageRequest& request,
                                              Findings& findings) {
  return Planner(compiled, config, request, findings).Run();
}

std::vector<std::optional<int64_t>> ParameterBytesByRank(const Plan& plan,
                                                         Mode mode) {
  // Parameters are counted by layout, set of stages and coordinate. A plan has
  // few combinations of these, so bytes are computed only once for each.
  std::map<std::tuple<uint32_t, uint32_t, std::optional<int64_t>>, int64_t>
      counts;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const PlannedParam& param = plan.params[i];
    ++counts[{param.layout, plan.stage_set[i], plan.CoordinateOf(param)}];
  }
  BytesByRank bytes(*plan.stages);
  for (const auto& [group, count] : counts) {
    const auto& [layout_index, set, coordinate] = group;
    const ParamLayout& layout = plan.layouts[layout_index];
    const bool placed = coordinate && layout.rule >= 0;
    bytes.Add(plan.stage_sets[set], LayoutIn(layout, mode).bytes_per_device,
              count, placed ? &PlacementAxis(plan, layout) : nullptr,
              coordinate.value_or(0));
  }
  return bytes.Fullest();
}

// Divides a compiled model into pipeline stages: finds the set of stages that
// hold each parameter. All parameters of one layer have the same set. A set is
// stored once for all of them, so a plan stores about as many sets as the model
// has layers. For example, with 32 layers in 4 stages:
//
//   layer 5                              ->  {0}
//   an embedding that the head also uses ->  {0, 3}

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
       FigureResolver(compiled).axes().Value(AxisRule::kHiddenState).axes) {
    if (compiled.mesh.Find(axis)) hidden.push_back(axis);
  }
  AddSets(*compiled.stages, plan);
  plan.summary.bytes_by_rank = ParameterBytesByRank(plan, Mode::kTrain);
  plan.summary.bytes_per_device = MostOf(plan.summary.bytes_by_rank);
}

}  // namespace shardc
