// Computes the memory of the device that needs the most. Replicated and sharded
// parameters need the same bytes on all devices. A placed parameter is stored
// only at one coordinate of an axis, so the bytes of placed parameters are
// added up for each coordinate, and the largest sum is used. The result is the
// memory in the mode that needs the most. For example:
//
//   3 experts of 1 GiB, placed on the axis ep of size 2
//     ->  the two coordinates hold 2 and 1 GiB, and 2 GiB is the result
#include "lint/analysis/memory.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/memory.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/pattern_faults.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "plan/axis_facts.h"
#include "plan/compile.h"
#include "plan/mesh_purposes.h"
#include "plan/planned_stages.h"
#include "resolve/resolve.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

int64_t ParameterBytes(const Facts& facts, Mode mode) {
  HeldBytes held;
  for (const PlannedParam& param : facts.plan().params) {
    const ParamLayout& layout = facts.plan().layouts[param.layout];
    const int64_t bytes = LayoutIn(layout, mode).bytes_per_device.value_or(0);
    const auto coordinate = facts.plan().CoordinateOf(param);
    if (!coordinate || layout.rule < 0) {
      held.Add(bytes);
      continue;
    }
    held.AddAt(facts.PlacementAxis(layout), *coordinate, bytes);
  }
  return held.Fullest().value_or(INT64_MAX);
}

// Returns the number of layers in all stages of a rank.
int64_t LayersOfRank(const PlannedStages& stages, int32_t rank) {
  int64_t out = 0;
  for (int32_t s = 0; s < stages.stages(); ++s) {
    if (stages.table.Holds(rank, s)) {
      out += stages.LayersOf(s).count();
    }
  }
  return out;
}

// Finds the pipeline rank that needs the most memory in the mode `use.mode`,
// and sets `use.rank` to it. Sets `use.parameters` to the bytes of the rank's
// parameters, and `use.cache` to the bytes of the KV cache of the rank's
// layers.
void TakeFullestRank(const Facts& facts, const PlannedStages& stages,
                     MemoryUse& use) {
  const int64_t whole = use.cache;
  const auto bytes = ParameterBytesByRank(facts.plan(), use.mode);
  int64_t most = -1;
  for (size_t r = 0; r < bytes.size(); ++r) {
    const auto rank = static_cast<int32_t>(r);
    const int64_t parameters = bytes[r].value_or(0);
    const int64_t layers = std::max<int64_t>(1, stages.units.layers);
    const int64_t cache =
        whole / layers *
        std::min(layers, whole == 0 ? 0 : LayersOfRank(stages, rank));
    const int64_t total = (Size(parameters) + cache).value();
    if (total <= most) continue;
    most = total;
    use.parameters = parameters;
    use.cache = cache;
    use.rank = rank;
  }
}

}  // namespace

std::string MemoryUse::Device() const {
  return rank < 0 ? "a device" : "a device of rank " + std::to_string(rank);
}

std::string MemoryUse::ToString() const {
  std::string out = BytesText(parameters) + " of parameters";
  if (cache > 0) out += " and " + BytesText(cache) + " of KV cache";
  return out;
}

std::optional<MemoryUse> MostMemory(const Facts& facts) {
  std::optional<MemoryUse> most;
  for (const Mode mode : facts.plan().modes) {
    MemoryUse use;
    use.mode = mode;
    use.parameters = ParameterBytes(facts, mode);
    if (mode != Mode::kTrain) {
      use.cache = CacheBytesPerDevice(facts, mode).value_or(0);
    }
    if (const PlannedStages* stages = facts.compiled().stages.get()) {
      TakeFullestRank(facts, *stages, use);
    }
    if (CheckedAdd(use.parameters, use.cache) &&
        (!most || use.Total() > most->Total())) {
      most = use;
    }
  }
  return most;
}

// Computes the bytes of a KV cache in bfloat16: 4 (two bytes each for key and
// value) times layers, batch, length, KV heads and head size. On a device, each
// size is divided by the number of shards of its dimension and rounded up. For
// example, 32 layers, batch 8, length 8192, and 8 KV heads of size 128:
//
//   in total                                             8 GiB
//   on a device, batch over dp 2 and KV heads over tp 4  1 GiB

namespace {

std::optional<std::vector<CacheSizes>> CachesOf(const Facts& facts) {
  if (facts.model() == nullptr || !facts.inputs().batch ||
      !facts.inputs().kv_len || !HeadsOf(*facts.model()) ||
      (facts.has() & kNeedsHeads) == 0) {
    return std::nullopt;
  }
  return CachesOf(*facts.model(), *facts.inputs().batch, *facts.inputs().kv_len,
                  Dtype::kBF16);
}

}  // namespace

Spec AttentionSpecOf(const Facts& facts, Mode mode, std::string_view tensor) {
  for (const AttentionTensor& one :
       AttentionSpecs(FigureResolver(facts.compiled()), mode, {})) {
    if (one.name == tensor) return one.resolved.spec;
  }
  return {};
}

AxisGroup AttentionAxes(const Facts& facts, Mode mode, std::string_view tensor,
                        AttentionDim dim) {
  const Spec spec = AttentionSpecOf(facts, mode, tensor);
  const auto at = static_cast<size_t>(dim);
  return at < spec.size() ? spec[at] : AxisGroup{};
}

std::optional<int64_t> CacheBytes(const Facts& facts) {
  const auto caches = CachesOf(facts);
  return caches ? CacheBytesPerDevice(*caches, {}) : std::nullopt;
}

std::optional<int64_t> CacheBytesPerDevice(const Facts& facts, Mode mode) {
  const auto caches = CachesOf(facts);
  if (!caches || !CacheBytesPerDevice(*caches, {})) return std::nullopt;
  const auto parts = [&](AttentionDim dim) {
    return facts.mesh()
        .Parts(AttentionAxes(facts, mode, "key", dim))
        .value_or(1);
  };
  return CacheBytesPerDevice(
      *caches, {parts(kBatchDim), parts(kLengthDim), parts(kHeadsDim)});
}

bool Plans(const Facts& facts, Mode mode) {
  const auto& modes = facts.plan().modes;
  return IsAmong(mode, modes);
}

namespace {

// Compares the axes in the specs of all parameters with the axes of the mesh.
// Specs are read as they are before they are corrected to fit a shape. A model
// is reported if no spec has an axis of the mesh that is larger than 1. For
// example:
//
//   rules [FSDP, TP], mesh data:8,model:4
//     ->  every spec is [null, null], because the mesh has no fsdp and no tp
//     ->  help: axes: {fully_sharded_data_parallel: data,
//                      tensor_parallel: model}

using R = AxisRule;

// Returns the axes larger than 1 that should shard parameters.
AxisGroup AxesForParameters(const Facts& facts) {
  const AxisRules& rules = facts.compiled().rules.axes;
  std::set<std::string> replicas = {StageAxis(facts),
                                    facts.compiled().stage_axis};
  for (const R rule : {R::kDataParallel, R::kSequenceParallel, R::kBatch,
                       R::kSequence, R::kQuerySequence, R::kKeySequence}) {
    const AxisValue value = rules.Value(rule);
    replicas.insert(value.axes.begin(), value.axes.end());
  }
  for (const R rule :
       {R::kFullyShardedDataParallel, R::kTensorParallel, R::kExpertParallel}) {
    for (const std::string& axis : rules.Value(rule).axes) replicas.erase(axis);
  }
  AxisGroup out;
  for (const MeshAxis& axis : facts.mesh().axes) {
    if (axis.size > 1 && !replicas.contains(axis.name)) {
      out.push_back(axis.name);
    }
  }
  return out;
}

// Returns whether the specs of a group, in some mode, have an axis of the mesh
// that is larger than 1, or its parameters are placed along one.
bool UsesMesh(const Facts& facts, const ParameterGroup& group) {
  const Mesh& mesh = facts.mesh();
  const auto used = [&](const std::string& axis) {
    return mesh.Find(axis) && mesh.SizeOf(axis) > 1;
  };
  const ParamLayout& layout = facts.LayoutOf(group);
  if (used(facts.PlacementAxis(layout))) return true;
  for (const ModeLayout& mode : layout.modes) {
    for (const AxisGroup& axes : mode.resolved) {
      if (std::any_of(axes.begin(), axes.end(), used)) return true;
    }
  }
  return false;
}

// Returns the parallelism axes that the mesh lacks and that the list names
// itself, such as `tp`.
void AddAbsentNames(const Facts& facts, const SpecSource& spec,
                    std::set<std::string>& out) {
  const Resolver& resolver = *facts.compiled().resolver;
  const auto* list = std::get_if<SpecList>(&spec);
  if (list == nullptr) return;
  for (const SpecEntry& entry : list->entries) {
    for (const SpecName& name : entry.names) {
      if (resolver.MeansMeshAxis(name) &&
          resolver.IsAbsentParallelism(name.text)) {
        out.insert(name.text);
      }
    }
  }
}

// Returns axis rules that give the mesh's axes their purposes. They include the
// axis rules of the files that name only axes which the mesh lacks, with the
// names replaced: `batch: [fsdp, dp]` becomes `batch: [data]`.
AxisRules RenamedRules(const Facts& facts, const MeshPurposes& purposes) {
  AxisRules out = purposes.renamed;
  const AxisRules& given = facts.compiled().rules.axes;
  const AxisRules defaults;
  const auto kinds = ParallelismRules();
  for (size_t i = kinds.size(); i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<R>(i);
    const auto& value = given.Given(rule);
    if (!value || value->axes.empty()) continue;
    AxisValue renamed{.is_null = false, .axes = {}};
    bool known = false;
    for (const std::string& axis : value->axes) {
      known = known || facts.mesh().Find(axis);
      for (const R kind : kinds) {
        if (given.Value(kind).axes != AxisGroup{axis}) continue;
        const auto& to = out.Given(kind);
        if (to) renamed.axes.push_back(to->axes.front());
      }
    }
    if (!known && !renamed.axes.empty()) out.Set(rule, std::move(renamed));
  }
  return out;
}

std::string NamesText(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(Quoted(name));
  return ListText(quoted, 5);
}

// Returns what to write if the axes that the rules name are not in the mesh.
std::string AbsentHelp(const Facts& facts,
                       const std::set<std::string>& literal) {
  const MeshPurposes purposes = PurposesOf(facts.mesh());
  const AxisRules renamed = RenamedRules(facts, purposes);
  std::string out;
  const auto add = [&](const std::string& text) {
    AppendItem(out, "; ", text);
  };
  if (!(renamed == AxisRules())) {
    bool editable = false;
    for (size_t r = 0; r < facts.rules().size(); ++r) {
      editable = editable || facts.IsEditable(static_cast<int32_t>(r));
    }
    add("write what the mesh's axes are for in " +
        std::string(editable ? "the rules file"
                             : "a rules file that `extends` this pack") +
        ": `" + AxesText(renamed) + "`");
    if (!literal.empty()) {
      add("write logical axes such as `FSDP` and `TP` in the specs instead "
          "of " +
          NamesText({literal.begin(), literal.end()}));
    }
  }
  if (!purposes.stages.empty()) {
    add("if " + NamesText(purposes.stages) +
        " is for pipeline stages, declare them with `stages: {axis: " +
        purposes.stages.front() + "}`");
  }
  if (!purposes.unknown.empty()) {
    add("what " + NamesText(purposes.unknown) + " " +
        (purposes.unknown.size() == 1 ? "is" : "are") +
        " for is not known from the name: give it a purpose in the rules file, "
        "such as `axes: {tensor_parallel: " +
        purposes.unknown.front() + "}`");
  }
  if (out.empty()) {
    add("write the rules for an axis of the mesh, or add the axis to the mesh");
  }
  return out;
}

// Returns what to write if no rule names an axis.
std::string ReplicatedHelp(const Facts& facts, bool editable) {
  const MeshPurposes purposes = PurposesOf(facts.mesh());
  const auto& data = purposes.renamed.Given(R::kFullyShardedDataParallel);
  int64_t axes = 0;
  for (const MeshAxis& axis : facts.mesh().axes) axes += axis.size > 1 ? 1 : 0;
  std::string out =
      "shard the largest parameters over an axis of the mesh; `shardc suggest` "
      "writes such rules";
  if (axes == 1 && data && facts.mesh().SizeOf(data->axes.front()) > 1) {
    AxisRules replicas;
    replicas.Set(R::kDataParallel, *data);
    out += "; if each device is to hold a replica, write `" +
           AxesText(replicas) + "` in the rules file";
  } else if (editable) {
    out +=
        "; if this is intended, write `# shardc: ignore[SHD207]` and the "
        "reason above the rule";
  }
  return out;
}

}  // namespace

std::string PurposeText(const Facts& facts, const std::string& axis) {
  const MeshPurposes purposes = PurposesOf(facts.mesh());
  for (const R rule : ParallelismRules()) {
    const auto& value = purposes.renamed.Given(rule);
    if (!value || value->axes != AxisGroup{axis}) continue;
    if (facts.compiled().rules.axes.Value(rule).axes == value->axes) return {};
    AxisRules only;
    only.Set(rule, *value);
    return AxesText(only);
  }
  return {};
}

std::optional<LintFinding> WholeModelReplicated(const Facts& facts,
                                                const Code& code) {
  const AxisGroup axes = AxesForParameters(facts);
  if (axes.empty()) return std::nullopt;
  // If no size is known, the parameters are counted instead of their bytes.
  const bool sized = facts.total_bytes() > 0;
  int64_t replicated = 0, all = 0, params = 0;
  int32_t first = -1;
  std::vector<std::string> requested;
  std::set<std::string> literal;
  bool worth = false;  // whether some parameter is worth sharding
  LintFinding finding = FindingAt(code);
  finding.level = Level::kError;
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.Judged(group)) return std::nullopt;
    const int64_t weight = sized ? facts.TotalBytes(group) : group.count();
    all = CheckedAdd(all, weight).value_or(INT64_MAX);
    if (UsesMesh(facts, group)) continue;
    replicated = CheckedAdd(replicated, weight).value_or(INT64_MAX);
    params += group.count();
    const int rank = facts.Rank(group);
    worth = worth || rank < 0 || rank > 1 ||
            facts.Elements(group) >= kLargeElements;
    facts.AddNames(facts.Members(group), finding);
    if (group.rule < 0) continue;
    for (const std::string& axis : facts.RequestedAxes(group.rule)) {
      AddOnce(requested, axis);
    }
    AddAbsentNames(facts, facts.rules()[static_cast<size_t>(group.rule)].spec,
                   literal);
    // The place is the first rule that can be edited, or else the first rule.
    const auto order = [&](int32_t rule) {
      return std::pair(!facts.IsEditable(rule), rule);
    };
    if (first < 0 || order(group.rule) < order(first)) first = group.rule;
  }
  if (params == 0 || replicated != all) return std::nullopt;
  if (requested.empty() && !worth) return std::nullopt;
  const bool editable = facts.IsEditable(first);
  finding.place = editable ? facts.RulePlace(first) : facts.MeshPlace();
  if (finding.place.source == nullptr) finding.place = facts.RulePlace(first);
  finding.unless = {WholeModelTopic()};
  for (const std::string& axis : axes) {
    finding.reports.push_back(UnusedAxisTopic(axis));
  }
  const std::string mesh = "the mesh (" + MeshText(facts.mesh()) + ")";
  finding.message =
      (requested.empty()
           ? "no rule splits over an axis of " + mesh
           : "the rules split over " + NamesText(requested) + " only, which " +
                 mesh + " lacks or has with size 1") +
      ": the whole model, " + Counted(params, "parameter") +
      (sized ? " of " + BytesText(replicated) : "") +
      ", is replicated on each of " +
      Counted(DevicesOfRank(facts.mesh(), facts.plan().stages), "device") +
      (facts.plan().stages ? " of a pipeline rank" : "");
  finding.help = requested.empty() ? ReplicatedHelp(facts, editable)
                                   : AbsentHelp(facts, literal);
  return finding;
}

}  // namespace shardc
