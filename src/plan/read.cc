// Reads a plan. The form of its JSON is checked first (source/json_form.h), so
// that every required member exists and every member has its type. What is left
// to check are relations: the axes of a spec must be axes of the mesh, and the
// numbers of ranks, stages and dimensions must exist, because later code uses
// them as indices. In a mode that a parameter does not list, it has the spec in
// `spec`:
//
//   "w": {"shape": [8, 4], "spec": [["fsdp", "dp"], null]}
//     ->  in every mode, fsdp and dp shard the first dimension of `w`, and no
//         axis shards the second
#include "plan/read.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "plan/plan_axes.h"
#include "plan/stage_units.h"
#include "source/json_form.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::string_view kSchemaName = "shardc.plan/v1";
constexpr std::string_view kSchemaWithStages = "shardc.plan/v2";

bool Refuse(const JsonValue& at, std::string message, Findings& findings) {
  findings.Add(code::kSchema, at.place(), std::move(message));
  return false;
}

std::string StringOf(const JsonValue& value) {
  return std::string(value.string());
}

bool HasAxis(const Mesh& mesh, const JsonValue& axis, Findings& findings) {
  if (mesh.FindDigit(axis.string())) return true;
  findings.Add(code::kUnknownName, axis.place(),
               "the plan's mesh has no axis " + ShortQuote(axis.string()));
  return false;
}

LayerRange RangeOf(const JsonValue& value) {
  auto end = value.items().begin();
  const int64_t first = (*end).integer();
  ++end;
  return {first, (*end).integer()};
}

// Reads numbers that are less than `end`. At another number, adds a finding
// with this message and returns false.
bool ReadNumbers(const JsonValue& value, int64_t end,
                 const std::string& message, std::vector<int32_t>& out,
                 Findings& findings) {
  for (const JsonValue item : value.items()) {
    if (item.integer() >= end) return Refuse(item, message, findings);
    out.push_back(static_cast<int32_t>(item.integer()));
  }
  return true;
}

bool CheckSchema(const JsonValue& root, Findings& findings) {
  const auto schema = root.Find("schema");
  const std::string_view own = SchemaOf(root);
  const std::string known = Quote(kSchemaName);
  if (own.starts_with("shardc.plan/v") && own != kSchemaName &&
      own != kSchemaWithStages) {
    findings.Add(code::kSchema, schema->place(),
                 "this plan has the schema " + ShortQuote(own) +
                     "; this shardc reads " + known + " and " +
                     Quote(kSchemaWithStages),
                 "a newer shardc wrote it: read it with that version, or "
                 "write it again with `shardc plan -o FILE`");
    return false;
  }
  if (own != kSchemaName && own != kSchemaWithStages) {
    findings.Add(code::kSchema, schema ? schema->place() : root.place(),
                 "this is not a plan: its `schema` is not " + known,
                 "`shardc plan -o FILE` writes one");
    return false;
  }
  const auto stages = root.Find("stages");
  if ((own == kSchemaWithStages) == stages.has_value()) return true;
  findings.Add(code::kSchema, stages ? stages->place() : root.place(),
               "a plan has `stages` exactly if its `schema` is " +
                   Quote(kSchemaWithStages),
               "`shardc plan -o FILE` writes it");
  return false;
}

bool ReadModes(const JsonValue& value, std::vector<Mode>& out,
               Findings& findings) {
  if (value.size() == 0) return Refuse(value, "the plan has no mode", findings);
  for (const JsonValue item : value.items()) {
    const Mode mode = *ParseMode(item.string());
    if (IsAmong(mode, out)) {
      return Refuse(item, "this mode is given twice", findings);
    }
    out.push_back(mode);
  }
  return true;
}

// Reads the specs of tensors by mode, such as {"train": {"query": ["dp"]}}.
std::vector<ReadActivation> ActivationsOf(const JsonValue& modes) {
  std::vector<ReadActivation> out;
  for (const JsonMember mode : modes.members()) {
    for (const JsonMember tensor : mode.value.members()) {
      ReadActivation& one = out.emplace_back();
      one.mode = *ParseMode(mode.name());
      one.tensor = tensor.name();
      for (const JsonValue entry : tensor.value.items()) {
        one.spec.push_back(AxesOf(entry));
      }
    }
  }
  return out;
}

void MarkStated(const JsonValue& names, std::vector<ReadActivation>& to) {
  for (const JsonValue name : names.items()) {
    for (ReadActivation& one : to) one.stated |= one.tensor == name.string();
  }
}

// Reads the stages of a plan. The layers of each stage must begin where the
// layers of the previous stage end. For example, rank 4 does not exist if the
// axis of the stages has size 4:
//
//   "of": [{"ranks": [0, 4], ..}]  ->  "a rank is an integer from 0 to 3"
class StagesReader {
 public:
  StagesReader(const Mesh& mesh, Findings& findings)
      : mesh_(mesh), findings_(findings) {}

  // Returns nullopt after a finding.
  std::optional<PlanStages> Read(const JsonValue& value) {
    if (!ReadAxes(value)) return std::nullopt;
    out_.placement = StringOf(MemberOrNull(value, "placement"));
    out_.schedule = StringOf(MemberOrNull(value, "schedule"));
    out_.table = StringOf(MemberOrNull(value, "table"));
    out_.virtual_stages = MemberOrNull(value, "virtual").integer();
    out_.microbatches = MemberOrNull(value, "microbatches").integer();
    if (!ReadStageList(MemberOrNull(value, "of"))) return std::nullopt;
    const auto copies = value.Find("copies");
    if (copies && !ReadCopies(*copies)) return std::nullopt;
    return std::move(out_);
  }

 private:
  bool ReadAxes(const JsonValue& value) {
    const JsonValue axis = MemberOrNull(value, "axis");
    out_.axis = StringOf(axis);
    if (!mesh_.Find(out_.axis)) return HasNoAxis(axis);
    out_.ranks = mesh_.SizeOf(out_.axis);
    if (out_.ranks > kMostStageRanks) {
      findings_.Add(code::kLimit, axis.place(),
                    "a pipeline of " + CountText(out_.ranks) +
                        " ranks is more than " + CountText(kMostStageRanks));
      return false;
    }
    const auto hidden = value.Find("hidden");
    if (!hidden) return true;
    for (const JsonValue item : hidden->items()) {
      if (!mesh_.Find(item.string())) return HasNoAxis(item);
    }
    out_.hidden = AxesOf(*hidden);
    return true;
  }

  bool ReadStageList(const JsonValue& of) {
    int64_t end = 0;
    for (const JsonValue item : of.items()) {
      PlanStage& stage = out_.of.emplace_back();
      const JsonValue layers = MemberOrNull(item, "layers");
      if (!ReadRanks(item, stage.ranks)) return false;
      stage.layers = RangeOf(layers);
      if (stage.layers.first != end || stage.layers.end < end) {
        return Refuse(layers,
                      "the layers of a stage are [first, end], and begin where "
                      "those of the stage before end",
                      findings_);
      }
      end = stage.layers.end;
      if (end > kMostStageLayers) {
        findings_.Add(code::kLimit, layers.place(),
                      "a stage has layer " + CountText(end - 1) + ", beyond " +
                          CountText(kMostStageLayers) + " layers");
        return false;
      }
      for (const JsonValue part : MemberOrNull(item, "parts").items()) {
        (part.string() == "first" ? stage.first : stage.last) = true;
      }
    }
    return !out_.of.empty() ||
           Refuse(of, "a pipeline has at least one stage", findings_);
  }

  bool ReadCopies(const JsonValue& copies) {
    for (const JsonValue item : copies.items()) {
      StageCopy& copy = out_.copies.emplace_back();
      copy.param = StringOf(MemberOrNull(item, "param"));
      if (!ReadNumbers(MemberOrNull(item, "stages"), std::ssize(out_.of),
                       "there is no such stage", copy.stages, findings_) ||
          !ReadRanks(item, copy.ranks)) {
        return false;
      }
    }
    return true;
  }

  bool ReadRanks(const JsonValue& of, std::vector<int32_t>& out) {
    return ReadNumbers(MemberOrNull(of, "ranks"), out_.ranks,
                       "a rank is an integer from 0 to " +
                           std::to_string(out_.ranks - 1) +
                           ", below the size of `" + out_.axis + "`",
                       out, findings_);
  }

  bool HasNoAxis(const JsonValue& axis) {
    findings_.Add(code::kUnknownName, axis.place(),
                  "the plan's mesh has no axis " + ShortQuote(axis.string()));
    return false;
  }

  const Mesh& mesh_;
  Findings& findings_;
  PlanStages out_;
};

// Reads the member `slices` of a parameter that holds a layer stack. Returns
// false after a finding.
bool ReadLayerSlices(const JsonValue& value, const PlanStages& stages,
                     ParamStages& out, Findings& findings) {
  const JsonValue of = MemberOrNull(value, "of");
  if (of.size() != stages.of.size()) {
    return Refuse(value, "`slices` has a range of layers for each stage",
                  findings);
  }
  out.dim = MemberOrNull(value, "dim").integer();
  if (const auto dims = value.Find("dims")) {
    out.dims = dims->integer();
    if (out.dims != 1 && out.dims != 3) {
      return Refuse(*dims, "layers are counted by 1 dimension or by 3",
                    findings);
    }
  }
  int32_t stage = 0;
  for (const JsonValue item : of.items()) {
    const LayerRange range = RangeOf(item);
    if (range.first > range.end) {
      return Refuse(item, "a range of layers is [begin, end]", findings);
    }
    if (range.count() > 0) {
      out.of.push_back({stage, range.first, range.end});
      out.layers = range.end;
    }
    ++stage;
  }
  return true;
}

// Reads the member `stages` (a list of numbers) or the member `slices` (an
// object) of a parameter. Returns false after a finding.
bool ReadParamStages(const JsonValue& value, const PlanStages& stages,
                     ParamStages& out, Findings& findings) {
  if (!out.of.empty()) {
    return Refuse(value, "a parameter has `stages` or `slices`, not both",
                  findings);
  }
  if (value.IsObject()) return ReadLayerSlices(value, stages, out, findings);
  int64_t next = 0;
  for (const JsonValue item : value.items()) {
    if (item.integer() < next || item.integer() >= std::ssize(stages.of)) {
      return Refuse(item,
                    "the stages of a parameter are numbers from 0 to " +
                        std::to_string(stages.of.size() - 1) + ", ascending",
                    findings);
    }
    next = item.integer() + 1;
    out.of.push_back({static_cast<int32_t>(item.integer())});
  }
  return true;
}

// Checks that the parameter has at least one stage and that its specs do not
// use the axis of the stages. If the parameter holds a layer stack, also checks
// that its stages together have all layers. Returns false after a finding at
// `name`.
bool CheckParamStages(const JsonValue& name, const PlanStages& stages,
                      const ReadParam& param, Findings& findings) {
  if (param.stages.of.empty()) {
    return Refuse(name, "the parameter is in no stage", findings);
  }
  if (UsesAxis(param.spec, stages.axis) ||
      std::any_of(param.modes.begin(), param.modes.end(),
                  [&](const auto& mode) {
                    return UsesAxis(mode.second, stages.axis);
                  })) {
    return Refuse(name,
                  "the spec of the parameter uses `" + stages.axis +
                      "`, the axis of the stages",
                  findings);
  }
  if (!param.stages.dim) return true;
  const auto& shape = param.type.shape;
  const int64_t begin = *param.stages.dim;
  if (!shape || begin > std::ssize(*shape) - param.stages.dims) {
    return Refuse(name, "the parameter has no such dimension of layers",
                  findings);
  }
  Size layers = 1;
  for (int64_t dim = begin; dim < begin + param.stages.dims; ++dim) {
    layers *= (*shape)[AsIndex(dim)];
  }
  int64_t covered = 0;
  for (const StageShare& share : param.stages.of) {
    if (share.begin != covered) {
      return Refuse(name, "a stage begins where the stage before it ends",
                    findings);
    }
    covered = share.end;
  }
  return covered == layers.value() ||
         Refuse(name, "the stages do not have all layers of the parameter",
                findings);
}

// Reads the corrections of a parameter.
std::vector<ReadCorrection> CorrectionsOf(const JsonValue& list) {
  std::vector<ReadCorrection> out;
  for (const JsonValue entry : list.items()) {
    ReadCorrection& one = out.emplace_back();
    one.mode =
        ParseMode(MemberOrNull(entry, "mode").string()).value_or(Mode::kTrain);
    const JsonValue dim = MemberOrNull(entry, "dim");
    if (!dim.IsNull()) one.dim = dim.integer();
    one.from = AxesOf(MemberOrNull(entry, "from"));
    one.reason = StringOf(MemberOrNull(entry, "reason"));
  }
  return out;
}

class ParamReader {
 public:
  ParamReader(const ReadPlan& plan, Findings& findings)
      : plan_(plan), findings_(findings) {
    std::vector<std::string_view> patterns;
    for (const ReadRule& rule : plan.rules) patterns.push_back(rule.match);
    rules_.emplace(patterns);
  }

  // Returns false after a finding.
  bool Read(const JsonMember& member, ReadParam& param) {
    param.name = std::string(member.name());
    param.place = member.key.place();
    for (const JsonMember field : member.value.members()) {
      if (!ReadMember(field.name(), field.value, param)) return false;
    }
    param.uneven = param.uneven && param.type.shape.has_value();
    return !plan_.stages ||
           CheckParamStages(member.key, *plan_.stages, param, findings_);
  }

 private:
  bool ReadMember(std::string_view key, const JsonValue& value,
                  ReadParam& param) {
    if (value.IsNull()) return true;
    if (key == "shape") return ReadShape(value, param.type.shape.emplace());
    if (key == "dtype") return ReadDtype(value, param.type);
    if (key == "spec") return ReadSpec(value, param.spec);
    if (key == "rule") return ReadRuleOf(value, param.rule);
    if (key == "placement") return ReadPlacementOf(value, param);
    if (key == "uneven") {
      param.uneven = true;
    } else if (key == "corrections") {
      param.corrections = CorrectionsOf(value);
    } else if (key == "parts") {
      auto parts = ParseDimParts(value, findings_);
      if (!parts) return false;
      param.parts = std::move(*parts);
    } else if (key == "modes") {
      for (const JsonMember mode : value.members()) {
        Spec& spec =
            param.modes.emplace_back(*ParseMode(mode.name()), Spec()).second;
        if (!ReadSpec(MemberOrNull(mode.value, "spec"), spec)) return false;
      }
    } else if (plan_.stages && (key == "stages" || key == "slices")) {
      return ReadParamStages(value, *plan_.stages, param.stages, findings_);
    }
    return true;
  }

  bool ReadShape(const JsonValue& value, Shape& shape) {
    for (const JsonValue item : value.items()) shape.push_back(item.integer());
    if (CheckedProduct(shape)) return true;
    findings_.Add(
        code::kOverflow, value.place(),
        "the size of shape " + ShapeText(shape) + " does not fit in 64 bits");
    return false;
  }

  bool ReadDtype(const JsonValue& value, TensorType& type) {
    type.dtype = ParseStoredDtype(value.string());
    if (type.dtype) return true;
    findings_.Add(code::kDtype, value.place(), "this data type is not known");
    return false;
  }

  bool ReadSpec(const JsonValue& value, Spec& spec) {
    for (const JsonValue entry : value.items()) {
      if (entry.IsString() && !HasAxis(plan_.mesh, entry, findings_)) {
        return false;
      }
      if (entry.IsArray()) {
        for (const JsonValue axis : entry.items()) {
          if (!HasAxis(plan_.mesh, axis, findings_)) return false;
        }
      }
      spec.push_back(AxesOf(entry));
    }
    return true;
  }

  bool ReadRuleOf(const JsonValue& value, int32_t& out) {
    const auto rule = rules_->Find(value);
    if (!rule) return Refuse(value, "the plan has no such rule", findings_);
    out = *rule;
    return true;
  }

  bool ReadPlacementOf(const JsonValue& value, ReadParam& param) {
    const std::string axis = StringOf(MemberOrNull(value, "axis"));
    const int64_t at = MemberOrNull(value, "coordinate").integer();
    if (!plan_.mesh.Find(axis) || at >= plan_.mesh.SizeOf(axis)) {
      return Refuse(value,
                    "the mesh has no coordinate " + std::to_string(at) +
                        " along `" + axis + "`",
                    findings_);
    }
    param.placement = {axis, at};
    return true;
  }

  const ReadPlan& plan_;
  Findings& findings_;
  std::optional<RuleIndex> rules_;
};

// Reads a plan that has its form. Returns nullopt after a finding.
std::optional<ReadPlan> ReadMembers(const JsonValue& root, Findings& findings) {
  const size_t before = findings.errors();
  ReadPlan plan;
  plan.fingerprint = StringOf(MemberOrNull(root, "fingerprint"));
  const JsonValue mesh = MemberOrNull(root, "mesh");
  auto read = ParsePlanMesh(mesh, findings);
  plan.mesh_place = mesh.place();
  if (read) plan.mesh = std::move(*read);
  ReadModes(MemberOrNull(root, "modes"), plan.modes, findings);
  if (findings.errors() > before) return std::nullopt;
  if (const auto stages = root.Find("stages")) {
    plan.stages = StagesReader(plan.mesh, findings).Read(*stages);
    if (!plan.stages) return std::nullopt;
  }
  plan.attention = ActivationsOf(MemberOrNull(root, "attention"));
  if (const auto activations = root.Find("activations")) {
    plan.activations = ActivationsOf(*activations);
  }
  if (const auto stated = root.Find("activations_stated")) {
    MarkStated(*stated, plan.activations);
  }
  if (const auto kv = root.Find("kv")) {
    auto kinds = ReadKv(*kv, findings);
    if (!kinds) return std::nullopt;
    plan.kv = std::move(*kinds);
  }
  if (const auto axes = root.Find("axes")) {
    plan.axes = ReadPlanAxes(*axes, plan.mesh, findings);
    if (!plan.axes) return std::nullopt;
  }
  for (const JsonValue rule : MemberOrNull(root, "rules").items()) {
    plan.rules.push_back({StringOf(MemberOrNull(rule, "match")),
                          StringOf(MemberOrNull(rule, "source"))});
  }
  ParamReader reader(plan, findings);
  const JsonValue params = MemberOrNull(root, "params");
  plan.params.reserve(params.size());
  for (const JsonMember member : params.members()) {
    if (findings.Full()) break;
    ReadParam param;
    if (reader.Read(member, param)) plan.params.push_back(std::move(param));
  }
  if (findings.errors() > before) return std::nullopt;
  return plan;
}

// Reads the list of axes of a mesh, whose names must differ.
bool ReadAxes(const JsonValue& axes, Mesh& mesh, Findings& findings) {
  for (const JsonValue item : axes.items()) {
    MeshAxis axis{StringOf(MemberOrNull(item, "name")),
                  MemberOrNull(item, "size").integer()};
    if (mesh.Find(axis.name)) {
      return Refuse(item,
                    "a mesh axis has a name of its own and a size of 1 or more",
                    findings);
    }
    const std::string_view type = MemberOrNull(item, "type").string();
    if (type == "explicit") axis.type = AxisType::kExplicit;
    if (type == "manual") axis.type = AxisType::kManual;
    mesh.axes.push_back(std::move(axis));
  }
  return true;
}

// Reads the member `slices`, the number of slices (pods) of the mesh, and the
// member `dcn`, which states over how many slices each axis extends. Returns
// false after a finding.
bool ReadMeshSlices(const JsonValue& value, Mesh& mesh, Findings& findings) {
  const auto slices = value.Find("slices");
  const auto dcn = value.Find("dcn");
  if (!slices && !dcn) return true;
  std::vector<int64_t> factors;
  bool divides = slices && dcn && dcn->size() == mesh.axes.size();
  if (divides) {
    for (const JsonValue factor : dcn->items()) {
      const int64_t size = mesh.axes[factors.size()].size;
      factors.push_back(factor.integer());
      divides = divides && size % factors.back() == 0;
    }
  }
  const auto product = CheckedProduct(factors);
  if (!divides || product != slices->integer()) {
    return Refuse(
        slices ? *slices : *dcn,
        "`slices` and `dcn` do not agree with each other and the axes",
        findings);
  }
  mesh.slices = *product;
  mesh.dcn = std::move(factors);
  return true;
}

}  // namespace

AxisGroup AxesOf(const JsonValue& entry) {
  AxisGroup axes;
  if (entry.IsString()) axes.push_back(StringOf(entry));
  if (entry.IsArray()) {
    for (const JsonValue axis : entry.items()) axes.push_back(StringOf(axis));
  }
  return axes;
}

bool UsesAxis(const Spec& spec, const std::string& axis) {
  return std::any_of(spec.begin(), spec.end(), [&](const AxisGroup& axes) {
    return IsAmong(axis, axes);
  });
}

const Spec& ReadParam::SpecOf(Mode mode) const {
  for (const auto& [own, other] : modes) {
    if (own == mode) return other;
  }
  return spec;
}

std::optional<JsonValue> RequiredMember(const JsonValue& object,
                                        std::string_view key, JsonKind kind,
                                        Findings& findings) {
  const auto value = object.Find(key);
  if (value && value->kind() == kind) return value;
  findings.Add(code::kSchema, value ? value->place() : object.place(),
               "`" + std::string(key) + "` is " +
                   (value ? "of the wrong type" : "missing"));
  return std::nullopt;
}

std::optional<DimParts> ParseDimParts(const JsonValue& value,
                                      Findings& findings) {
  const auto is_from = [](const JsonValue& item, int64_t least) {
    return item.kind() == JsonKind::kInteger && item.integer() >= least;
  };
  DimParts out;
  for (const JsonValue item : value.items()) {
    PartsOfDim& of = out.emplace_back();
    if (item.IsNull()) continue;
    bool good = is_from(item, 2);
    if (good) {
      of.count = item.integer();
    } else if (item.IsArray() && item.size() > 1) {
      good = true;
      for (const JsonValue size : item.items()) {
        good = good && is_from(size, 1);
        of.sizes.push_back(good ? size.integer() : 1);
      }
      of.count = static_cast<int64_t>(of.sizes.size());
    }
    if (good) continue;
    out.clear();
    break;
  }
  if (!out.empty() && out.back().several()) return out;
  Refuse(value,
         "`parts` is a list of the number of parts of each dimension: null for "
         "one, an integer of 2 or more, or a list of the sizes of several "
         "parts; the last is not null",
         findings);
  return std::nullopt;
}

std::optional<Mesh> ParsePlanMesh(const JsonValue& value, Findings& findings) {
  if (!HasForm(value, "plan", "mesh", FormMembers::kRead, findings)) {
    return std::nullopt;
  }
  Mesh mesh;
  if (!ReadAxes(MemberOrNull(value, "axes"), mesh, findings)) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  const auto devices = CheckedProduct(sizes);
  const auto given = value.Find("devices");
  if (!devices || (given && given->integer() != *devices)) {
    findings.Add(code::kDeviceCount, given ? given->place() : value.place(),
                 devices ? "the axes' sizes multiply to " +
                               std::to_string(*devices) +
                               ", which is not the number of devices"
                         : "the number of devices does not fit in 64 bits");
    return std::nullopt;
  }
  mesh.devices = *devices;
  if (const auto processes = value.Find("processes")) {
    const int64_t count = processes->integer();
    if (mesh.devices % count != 0) {
      findings.Add(code::kDeviceCount, processes->place(),
                   CountText(mesh.devices) +
                       " devices cannot be dealt out to so many processes");
      return std::nullopt;
    }
    mesh.processes = count;
  }
  return ReadMeshSlices(value, mesh, findings) ? std::optional(mesh)
                                               : std::nullopt;
}

std::optional<ReadPlan> ParsePlanOfClasses(const JsonDocument& document,
                                           const PlanClasses& classes,
                                           EditedPlan edited,
                                           Findings& findings) {
  const JsonValue root = document.root();
  const bool refused = edited == EditedPlan::kRefused;
  if (!CheckSchema(root, findings) ||
      !HasForm(root, "plan", "",
               refused ? FormMembers::kAll : FormMembers::kRead, findings)) {
    return std::nullopt;
  }
  auto plan = ReadMembers(root, findings);
  if (plan && refused && !IsUnedited(root, *plan, classes, findings)) {
    return std::nullopt;
  }
  return plan;
}

std::optional<ReadPlan> ParsePlan(const JsonDocument& document,
                                  EditedPlan edited, Findings& findings) {
  std::vector<std::string_view> names;
  if (const auto params = document.root().Find("params")) {
    for (const JsonMember param : params->members()) {
      names.push_back(param.name());
    }
  }
  std::vector<uint32_t> classes(names.size());
  std::iota(classes.begin(), classes.end(), 0);
  return ParsePlanOfClasses(document, {names, classes}, edited, findings);
}

std::vector<std::string> RuleNames(std::span<const std::string_view> patterns) {
  const std::set<std::string_view> all(patterns.begin(), patterns.end());
  std::map<std::string_view, int64_t> last;  // the last number of each pattern
  std::vector<std::string> out;
  out.reserve(patterns.size());
  for (const std::string_view pattern : patterns) {
    int64_t& number = ++last[pattern];
    std::string name(pattern);
    while (number > 1) {
      name = std::string(pattern) + " (" + std::to_string(number) + ")";
      if (!all.contains(name)) break;
      ++number;
    }
    out.push_back(std::move(name));
  }
  return out;
}

RuleIndex::RuleIndex(std::span<const std::string_view> patterns)
    : count_(static_cast<int64_t>(patterns.size())) {
  int32_t index = 0;
  for (std::string& name : RuleNames(patterns)) {
    by_name_.emplace(std::move(name), index++);
  }
}

std::optional<int32_t> RuleIndex::Find(const JsonValue& rule) const {
  if (rule.IsString()) {
    const auto found = by_name_.find(rule.string());
    return found == by_name_.end() ? std::nullopt
                                   : std::optional(found->second);
  }
  if (rule.kind() != JsonKind::kInteger || rule.integer() < 0 ||
      rule.integer() >= count_) {
    return std::nullopt;
  }
  return static_cast<int32_t>(rule.integer());
}

}  // namespace shardc
