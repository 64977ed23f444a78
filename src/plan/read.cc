// Reads the members of a plan that other commands need: the fingerprint, the
// mesh, the modes and the stages, and for each parameter the shape, dtype,
// specs, placement and stages. Shard shapes and bytes follow from these
// members, so they are computed and not read. In a mode that a parameter does
// not list, the parameter has the spec in `spec`:
//
//   "w": {"shape": [8, 4], "spec": [["fsdp", "dp"], null]}
//     ->  in every mode, fsdp and dp shard the first dimension of `w`, and no
//         axis shards the second
#include "plan/read.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "plan/stage_units.h"
#include "schedule/table.h"
#include "source/file.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::string_view kSchemaName = "shardc.plan/v1";
constexpr std::string_view kSchemaWithStages = "shardc.plan/v2";

class PlanReader {
 public:
  explicit PlanReader(Findings& findings) : findings_(findings) {}

  std::optional<ReadPlan> Read(const JsonValue& root) {
    const size_t before = findings_.errors();
    if (!CheckSchema(root)) return std::nullopt;
    if (const auto text = Member(root, "fingerprint", JsonKind::kString)) {
      plan_.fingerprint = text->string();
    }
    if (const auto mesh = Member(root, "mesh", JsonKind::kObject)) {
      auto read = ParsePlanMesh(*mesh, findings_);
      plan_.mesh_place = mesh->place();
      if (read) plan_.mesh = std::move(*read);
    }
    if (const auto modes = Member(root, "modes", JsonKind::kArray)) {
      ReadModesOfPlan(*modes);
    }
    const auto stages = root.Find("stages");
    if (stages && findings_.errors() == before) {
      plan_.stages = ReadPlanStages(*stages, plan_.mesh, findings_);
    }
    ReadActivationsOfPlan(root);
    const auto params = Member(root, "params", JsonKind::kObject);
    if (!params || findings_.errors() > before) return std::nullopt;
    plan_.params.reserve(params->size());
    for (const JsonMember member : params->members()) {
      if (findings_.Full()) break;
      ReadParameter(member);
    }
    if (findings_.errors() > before) return std::nullopt;
    return std::move(plan_);
  }

 private:
  bool Refuse(const Code& code, const JsonValue& at, std::string message) {
    findings_.Add(code, at.place(), std::move(message));
    return false;
  }

  bool CheckSchema(const JsonValue& root) {
    const auto schema = root.Find("schema");
    const std::string_view own = schema ? schema->string() : "";
    const std::string_view version = "shardc.plan/v";
    if (own.starts_with(version) && own != kSchemaName &&
        own != kSchemaWithStages) {
      findings_.Add(code::kSchema, schema->place(),
                    "this plan has the schema " + ShortQuote(own) +
                        "; this shardc reads `" + std::string(kSchemaName) +
                        "` and `" + std::string(kSchemaWithStages) + "`",
                    "a newer shardc wrote it: read it with that version, or "
                    "write it again with `shardc plan -o FILE`");
      return false;
    }
    if (own != kSchemaName && own != kSchemaWithStages) {
      findings_.Add(code::kSchema, schema ? schema->place() : root.place(),
                    "this is not a plan: its `schema` is not `" +
                        std::string(kSchemaName) + "`",
                    "`shardc plan -o FILE` writes one");
      return false;
    }
    const auto stages = root.Find("stages");
    if ((own == kSchemaWithStages) == stages.has_value()) return true;
    findings_.Add(code::kSchema, stages ? stages->place() : root.place(),
                  "a plan has `stages` exactly if its `schema` is `" +
                      std::string(kSchemaWithStages) + "`",
                  "`shardc plan -o FILE` writes it");
    return false;
  }

  std::optional<JsonValue> Member(const JsonValue& object, std::string_view key,
                                  JsonKind kind) {
    return RequiredMember(object, key, kind, findings_);
  }

  void ReadModesOfPlan(const JsonValue& modes) {
    if (modes.size() == 0) Refuse(code::kSchema, modes, "the plan has no mode");
    for (const JsonValue item : modes.items()) {
      const auto mode = ParseMode(item.string());
      if (!mode) {
        Refuse(code::kSchema, item, "this is not a mode");
        return;
      }
      if (std::find(plan_.modes.begin(), plan_.modes.end(), *mode) !=
          plan_.modes.end()) {
        Refuse(code::kSchema, item, "this mode is given twice");
        return;
      }
      plan_.modes.push_back(*mode);
    }
  }

  void ReadActivationsOfPlan(const JsonValue& root) {
    const auto activations = root.Find("activations");
    if (!activations ||
        !ReadActivations(*activations, plan_.activations, findings_)) {
      return;
    }
    const auto stated = root.Find("activations_stated");
    if (!stated) return;
    for (const JsonValue name : stated->items()) {
      for (ReadActivation& one : plan_.activations) {
        one.stated |= name.IsString() && one.tensor == name.string();
      }
    }
  }

  bool ReadShape(const JsonValue& value, std::optional<Shape>& out) {
    if (value.IsNull()) return true;
    if (!value.IsArray()) {
      return Refuse(code::kSchema, value, "a shape is a list of integers");
    }
    Shape shape;
    for (const JsonValue item : value.items()) {
      if (item.kind() != JsonKind::kInteger || item.integer() < 0) {
        return Refuse(code::kNumber, item,
                      "a dimension is an integer from 0 to 2^63 - 1");
      }
      shape.push_back(item.integer());
    }
    if (!CheckedProduct(shape)) {
      return Refuse(
          code::kOverflow, value,
          "the size of shape " + ShapeText(shape) + " does not fit in 64 bits");
    }
    out = std::move(shape);
    return true;
  }

  bool ReadAxis(const JsonValue& value, AxisGroup& group) {
    if (!value.IsString()) {
      return Refuse(code::kSchema, value, "an axis is a name");
    }
    if (!plan_.mesh.FindDigit(value.string())) {
      return Refuse(
          code::kUnknownName, value,
          "the plan's mesh has no axis `" + std::string(value.string()) + "`");
    }
    group.emplace_back(value.string());
    return true;
  }

  bool ReadSpec(const JsonValue& value, Spec& spec) {
    if (!value.IsArray()) {
      return Refuse(code::kSchema, value, "a spec is a list");
    }
    for (const JsonValue entry : value.items()) {
      AxisGroup group;
      if (entry.IsArray()) {
        for (const JsonValue axis : entry.items()) {
          if (!ReadAxis(axis, group)) return false;
        }
      } else if (!entry.IsNull() && !ReadAxis(entry, group)) {
        return false;
      }
      spec.push_back(std::move(group));
    }
    return true;
  }

  bool ReadPlacementOf(const JsonValue& value, ReadParam& param) {
    const auto axis = Member(value, "axis", JsonKind::kString);
    const auto at = Member(value, "coordinate", JsonKind::kInteger);
    if (!axis || !at) return false;
    const int64_t size = plan_.mesh.SizeOf(axis->string());
    if (!plan_.mesh.Find(axis->string()) || at->integer() < 0 ||
        at->integer() >= size) {
      return Refuse(code::kSchema, value,
                    "the mesh has no coordinate " +
                        std::to_string(at->integer()) + " along `" +
                        std::string(axis->string()) + "`");
    }
    param.placement = {std::string(axis->string()), at->integer()};
    return true;
  }

  bool ReadModes(const JsonValue& value, ReadParam& param) {
    for (const JsonMember member : value.members()) {
      const auto mode = ParseMode(member.name());
      if (!mode) return Refuse(code::kSchema, member.key, "this is no mode");
      const auto spec = Member(member.value, "spec", JsonKind::kArray);
      Spec read;
      if (!spec || !ReadSpec(*spec, read)) return false;
      param.modes.emplace_back(*mode, std::move(read));
    }
    return true;
  }

  void ReadParameter(const JsonMember& member) {
    ReadParam param;
    param.name = std::string(member.name());
    param.place = member.key.place();
    if (!member.value.IsObject()) {
      Refuse(code::kSchema, member.value, "a parameter is an object");
      return;
    }
    bool has_spec = false;
    for (const JsonMember field : member.value.members()) {
      const std::string_view key = field.name();
      bool good = true;
      if (key == "shape") {
        good = ReadShape(field.value, param.type.shape);
      } else if (key == "dtype" && !field.value.IsNull()) {
        param.type.dtype = ParseStoredDtype(field.value.string());
        if (!param.type.dtype) {
          good =
              Refuse(code::kDtype, field.value, "this data type is not known");
        }
      } else if (key == "spec") {
        has_spec = good = ReadSpec(field.value, param.spec);
      } else if (key == "modes") {
        good = ReadModes(field.value, param);
      } else if (key == "uneven") {
        param.uneven =
            field.value.kind() == JsonKind::kBool && field.value.boolean();
      } else if (key == "parts") {
        const auto parts = ParseDimParts(field.value, findings_);
        if (!parts) return;
        param.parts = *parts;
      } else if (key == "placement") {
        good = ReadPlacementOf(field.value, param);
      } else if (plan_.stages && (key == "stages" || key == "slices")) {
        good = ReadParamStages(field.value, *plan_.stages, param.stages,
                               findings_);
      }
      if (!good) return;
    }
    if (plan_.stages &&
        !CheckParamStages(member.key, *plan_.stages, param, findings_)) {
      return;
    }
    param.uneven = param.uneven && param.type.shape.has_value();
    if (!has_spec) {
      Refuse(code::kSchema, member.key, "the parameter has no `spec`");
      return;
    }
    plan_.params.push_back(std::move(param));
  }

  Findings& findings_;
  ReadPlan plan_;
};

bool ReadAxes(const JsonValue& axes, Mesh& mesh, Findings& findings) {
  std::set<std::string_view> seen;
  for (const JsonValue item : axes.items()) {
    const auto name = item.Find("name");
    const auto size = item.Find("size");
    if (!name || !name->IsString() || !size ||
        size->kind() != JsonKind::kInteger || size->integer() < 1 ||
        !seen.insert(name->string()).second) {
      findings.Add(code::kSchema, item.place(),
                   "a mesh axis has a name of its own and a size of 1 or more");
      return false;
    }
    MeshAxis axis{std::string(name->string()), size->integer()};
    if (const auto type = item.Find("type")) {
      if (type->string() == "explicit") axis.type = AxisType::kExplicit;
      if (type->string() == "manual") axis.type = AxisType::kManual;
    }
    mesh.axes.push_back(std::move(axis));
  }
  return true;
}

// Reads the member `slices`, the number of slices (pods) of the mesh, and the
// member `dcn`, which states over how many slices each axis extends. Returns
// false after a finding.
bool ReadSlices(const JsonValue& value, Mesh& mesh, Findings& findings) {
  const auto slices = value.Find("slices");
  const auto dcn = value.Find("dcn");
  if (!slices && !dcn) return true;
  std::vector<int64_t> factors;
  bool divides = true;
  if (dcn && dcn->IsArray() && dcn->size() == mesh.axes.size()) {
    for (const JsonValue factor : dcn->items()) {
      const int64_t size = mesh.axes[factors.size()].size;
      factors.push_back(factor.integer());
      divides = divides && factors.back() > 0 && size % factors.back() == 0;
    }
  }
  const auto product = CheckedProduct(factors);
  if (!slices || !divides || factors.size() != mesh.axes.size() || !product ||
      *product != slices->integer()) {
    findings.Add(
        code::kSchema, (slices ? slices : dcn)->place(),
        "`slices` and `dcn` do not agree with each other and the axes");
    return false;
  }
  mesh.slices = *product;
  mesh.dcn = std::move(factors);
  return true;
}

}  // namespace

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
  DimParts out;
  for (const JsonValue item : value.items()) {
    const bool number =
        item.kind() == JsonKind::kInteger && item.integer() >= 2;
    if (!number && !item.IsNull()) {
      out.clear();
      break;
    }
    out.push_back(number ? item.integer() : 1);
  }
  if (!out.empty() && out.back() > 1) return out;
  findings.Add(code::kSchema, value.place(),
               "`parts` is a list of the number of parts of each dimension: "
               "null for one, or an integer of 2 or more, which the last is");
  return std::nullopt;
}

std::optional<Mesh> ParsePlanMesh(const JsonValue& value, Findings& findings) {
  Mesh mesh;
  const auto axes = value.Find("axes");
  if (!axes || !axes->IsArray()) {
    findings.Add(code::kSchema, value.place(), "the mesh has no list of axes");
    return std::nullopt;
  }
  if (!ReadAxes(*axes, mesh, findings)) return std::nullopt;
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
    if (count < 1 || mesh.devices % count != 0) {
      findings.Add(code::kDeviceCount, processes->place(),
                   CountText(mesh.devices) +
                       " devices cannot be dealt out to so many processes");
      return std::nullopt;
    }
    mesh.processes = count;
  }
  return ReadSlices(value, mesh, findings) ? std::optional(mesh) : std::nullopt;
}

std::optional<ReadPlan> ParsePlan(const JsonDocument& document,
                                  EditedPlan edited, Findings& findings) {
  auto plan = PlanReader(findings).Read(document.root());
  if (!plan || edited == EditedPlan::kAllowed) return plan;
  std::vector<std::string_view> names;
  for (const ReadParam& param : plan->params) names.push_back(param.name);
  std::vector<uint32_t> classes(names.size());
  std::iota(classes.begin(), classes.end(), 0);
  if (!IsUnedited(document.root(), *plan, {names, classes}, findings)) {
    return std::nullopt;
  }
  return plan;
}

std::optional<ReadPlan> ReadPlanFile(const std::string& path, EditedPlan edited,
                                     Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  return ParsePlan(*document, edited, findings);
}

// Reads the stages of a plan. The layers of each stage must begin where the
// layers of the previous stage end. Each rank, stage and dimension must exist,
// because later code uses its number as an index. For example, rank 4 does not
// exist if the axis of the stages has size 4:
//
//   "of": [{"ranks": [0, 4], ..}]  ->  "a rank is an integer from 0 to 3"

namespace {

bool Refuse(const JsonValue& at, std::string message, Findings& findings) {
  findings.Add(code::kSchema, at.place(), std::move(message));
  return false;
}

// Reads an integer that is at least 0 and less than `end`. Returns nullopt for
// any other value.
std::optional<int64_t> NumberBelow(const JsonValue& value, int64_t end) {
  if (value.kind() != JsonKind::kInteger || value.integer() < 0 ||
      value.integer() >= end) {
    return std::nullopt;
  }
  return value.integer();
}

// Reads [begin, end] with 0 <= begin <= end <= most. Returns nullopt for any
// other value.
std::optional<LayerRange> RangeOf(const JsonValue& value, int64_t most) {
  if (!value.IsArray() || value.size() != 2) return std::nullopt;
  std::vector<int64_t> ends;
  for (const JsonValue end : value.items()) {
    if (end.kind() != JsonKind::kInteger) return std::nullopt;
    ends.push_back(end.integer());
  }
  if (ends[0] < 0 || ends[0] > ends[1] || ends[1] > most) return std::nullopt;
  return LayerRange{ends[0], ends[1]};
}

class StagesReader {
 public:
  StagesReader(const Mesh& mesh, Findings& findings)
      : mesh_(mesh), findings_(findings) {}

  std::optional<PlanStages> Read(const JsonValue& value) {
    if (!value.IsObject() || !ReadAxis(value) || !ReadTexts(value) ||
        !ReadHidden(value) || !ReadStageList(value) || !ReadCopies(value)) {
      return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  bool ReadAxis(const JsonValue& value) {
    const auto axis =
        RequiredMember(value, "axis", JsonKind::kString, findings_);
    if (!axis) return false;
    out_.axis = std::string(axis->string());
    if (!mesh_.Find(out_.axis)) {
      findings_.Add(code::kUnknownName, axis->place(),
                    "the plan's mesh has no axis `" + out_.axis + "`");
      return false;
    }
    out_.ranks = mesh_.SizeOf(out_.axis);
    if (out_.ranks <= kMostStageRanks) return true;
    findings_.Add(code::kLimit, axis->place(),
                  "a pipeline of " + CountText(out_.ranks) +
                      " ranks is more than " + CountText(kMostStageRanks));
    return false;
  }

  bool ReadPlacement(const JsonValue& value) {
    const auto found =
        RequiredMember(value, "placement", JsonKind::kString, findings_);
    if (!found) return false;
    out_.placement = found->string();
    return schedule::FindPlacement(out_.placement) ||
           Refuse(*found,
                  "`placement` of `stages` is not one of `loop`, `v`, `both` "
                  "and `listed`",
                  findings_);
  }

  bool ReadTexts(const JsonValue& value) {
    const auto text = [&](std::string_view key, std::string& to) {
      const auto found =
          RequiredMember(value, key, JsonKind::kString, findings_);
      if (found) to = std::string(found->string());
      return found.has_value();
    };
    const auto number = [&](std::string_view key, int64_t& to) {
      const auto found =
          RequiredMember(value, key, JsonKind::kInteger, findings_);
      if (!found) return false;
      to = found->integer();
      return to > 0 || Refuse(*found, "this number is at least 1", findings_);
    };
    return ReadPlacement(value) && text("schedule", out_.schedule) &&
           text("table", out_.table) &&
           number("virtual", out_.virtual_stages) &&
           number("microbatches", out_.microbatches);
  }

  bool ReadHidden(const JsonValue& value) {
    const auto hidden = value.Find("hidden");
    if (!hidden) return true;
    if (!hidden->IsArray()) {
      return Refuse(*hidden,
                    "`hidden` of `stages` is not a list of names of axes",
                    findings_);
    }
    AxisGroup& out = out_.hidden.emplace();
    for (const JsonValue item : hidden->items()) {
      out.emplace_back(item.string());
      if (mesh_.Find(out.back())) continue;
      findings_.Add(code::kUnknownName, item.place(),
                    "the plan's mesh has no axis " + ShortQuote(out.back()));
      return false;
    }
    return true;
  }

  bool ReadRanks(const JsonValue& value, std::vector<int32_t>& out) {
    for (const JsonValue item : value.items()) {
      const auto rank = NumberBelow(item, out_.ranks);
      if (!rank) {
        return Refuse(item,
                      "a rank is an integer from 0 to " +
                          std::to_string(out_.ranks - 1) +
                          ", below the size of `" + out_.axis + "`",
                      findings_);
      }
      out.push_back(static_cast<int32_t>(*rank));
    }
    return true;
  }

  bool ReadStageList(const JsonValue& value) {
    const auto of = RequiredMember(value, "of", JsonKind::kArray, findings_);
    if (!of) return false;
    int64_t end = 0;
    for (const JsonValue item : of->items()) {
      PlanStage stage;
      const auto ranks =
          RequiredMember(item, "ranks", JsonKind::kArray, findings_);
      const auto layers =
          RequiredMember(item, "layers", JsonKind::kArray, findings_);
      const auto parts =
          RequiredMember(item, "parts", JsonKind::kArray, findings_);
      if (!ranks || !layers || !parts) return false;
      if (!ReadRanks(*ranks, stage.ranks)) return false;
      const auto range = RangeOf(*layers, INT64_MAX);
      if (!range || range->first != end) {
        return Refuse(*layers,
                      "the layers of a stage are [first, end], and begin where "
                      "those of the stage before end",
                      findings_);
      }
      end = range->end;
      if (end > kMostStageLayers) {
        findings_.Add(code::kLimit, layers->place(),
                      "a stage has layer " + CountText(end - 1) + ", beyond " +
                          CountText(kMostStageLayers) + " layers");
        return false;
      }
      stage.layers = *range;
      for (const JsonValue part : parts->items()) {
        const bool first = part.string() == "first";
        if (!first && part.string() != "last") {
          return Refuse(*parts,
                        "`parts` of a stage is not a list of `first` and "
                        "`last`",
                        findings_);
        }
        (first ? stage.first : stage.last) = true;
      }
      out_.of.push_back(std::move(stage));
    }
    return !out_.of.empty() ||
           Refuse(*of, "a pipeline has at least one stage", findings_);
  }

  bool ReadCopies(const JsonValue& value) {
    const auto copies = value.Find("copies");
    if (!copies) return true;
    if (!copies->IsArray()) {
      return Refuse(*copies, "`copies` of `stages` is not a list", findings_);
    }
    for (const JsonValue item : copies->items()) {
      const auto param =
          RequiredMember(item, "param", JsonKind::kString, findings_);
      const auto stages =
          RequiredMember(item, "stages", JsonKind::kArray, findings_);
      const auto ranks =
          RequiredMember(item, "ranks", JsonKind::kArray, findings_);
      if (!param || !stages || !ranks) return false;
      StageCopy copy{std::string(param->string()), {}, {}};
      for (const JsonValue stage : stages->items()) {
        const auto at = NumberBelow(stage, std::ssize(out_.of));
        if (!at) return Refuse(stage, "there is no such stage", findings_);
        copy.stages.push_back(static_cast<int32_t>(*at));
      }
      if (!ReadRanks(*ranks, copy.ranks)) return false;
      out_.copies.push_back(std::move(copy));
    }
    return true;
  }

  const Mesh& mesh_;
  Findings& findings_;
  PlanStages out_;
};

bool ReadSlices(const JsonValue& value, const PlanStages& stages,
                ParamStages& out, Findings& findings) {
  const auto dim = RequiredMember(value, "dim", JsonKind::kInteger, findings);
  const auto of = RequiredMember(value, "of", JsonKind::kArray, findings);
  if (!dim || !of) return false;
  if (dim->integer() < 0 || of->size() != stages.of.size()) {
    return Refuse(value, "`slices` has a range of layers for each stage",
                  findings);
  }
  out.dim = dim->integer();
  if (const auto dims = value.Find("dims")) {
    out.dims = dims->integer();
    if (out.dims != 1 && out.dims != 3) {
      return Refuse(*dims, "layers are counted by 1 dimension or by 3",
                    findings);
    }
  }
  int32_t stage = 0;
  for (const JsonValue item : of->items()) {
    const auto range = RangeOf(item, INT64_MAX);
    if (!range) {
      return Refuse(item, "a range of layers is [begin, end]", findings);
    }
    if (range->count() > 0) {
      out.of.push_back({stage, range->first, range->end});
      out.layers = range->end;
    }
    ++stage;
  }
  return true;
}

}  // namespace

std::optional<PlanStages> ReadPlanStages(const JsonValue& value,
                                         const Mesh& mesh, Findings& findings) {
  if (!value.IsObject()) {
    Refuse(value, "`stages` is an object", findings);
    return std::nullopt;
  }
  return StagesReader(mesh, findings).Read(value);
}

bool ReadParamStages(const JsonValue& value, const PlanStages& stages,
                     ParamStages& out, Findings& findings) {
  if (!out.of.empty()) {
    return Refuse(value, "a parameter has `stages` or `slices`, not both",
                  findings);
  }
  if (value.IsObject()) return ReadSlices(value, stages, out, findings);
  if (!value.IsArray()) {
    return Refuse(value, "the stages of a parameter are a list of numbers",
                  findings);
  }
  int64_t next = 0;
  for (const JsonValue item : value.items()) {
    const auto stage = NumberBelow(item, std::ssize(stages.of));
    if (!stage || *stage < next) {
      return Refuse(item,
                    "the stages of a parameter are numbers from 0 to " +
                        std::to_string(stages.of.size() - 1) + ", ascending",
                    findings);
    }
    next = *stage + 1;
    out.of.push_back({static_cast<int32_t>(*stage)});
  }
  return true;
}

bool CheckParamStages(const JsonValue& name, const PlanStages& stages,
                      const ReadParam& param, Findings& findings) {
  if (param.stages.of.empty()) {
    return Refuse(name, "the parameter is in no stage", findings);
  }
  const auto names_axis = [&](const Spec& spec) {
    return std::any_of(spec.begin(), spec.end(), [&](const AxisGroup& axes) {
      return std::find(axes.begin(), axes.end(), stages.axis) != axes.end();
    });
  };
  bool names = names_axis(param.spec);
  for (const auto& [mode, spec] : param.modes) {
    names = names || names_axis(spec);
  }
  if (names) {
    return Refuse(name,
                  "the spec of the parameter uses `" + stages.axis +
                      "`, the axis of the stages",
                  findings);
  }
  if (!param.stages.dim) return true;
  const auto& shape = param.type.shape;
  const int64_t end = *param.stages.dim;
  if (!shape || end > std::ssize(*shape) - param.stages.dims) {
    return Refuse(name, "the parameter has no such dimension of layers",
                  findings);
  }
  Size layers = 1;
  for (int64_t dim = end; dim < end + param.stages.dims; ++dim) {
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

AxisGroup ReadAxisGroup(const JsonValue& entry) {
  AxisGroup group;
  if (entry.IsString()) group.emplace_back(entry.string());
  if (entry.IsArray()) {
    for (const JsonValue axis : entry.items()) {
      if (axis.IsString()) group.emplace_back(axis.string());
    }
  }
  return group;
}

bool ReadActivations(const JsonValue& modes, std::vector<ReadActivation>& out,
                     Findings& findings) {
  for (const JsonMember mode : modes.members()) {
    const auto parsed = ParseMode(mode.name());
    if (!parsed || !mode.value.IsObject()) {
      return Refuse(mode.key, "this is no mode", findings);
    }
    for (const JsonMember tensor : mode.value.members()) {
      ReadActivation one{*parsed, std::string(tensor.name()), {}, false};
      if (!tensor.value.IsArray()) {
        return Refuse(tensor.value, "a spec is a list", findings);
      }
      for (const JsonValue entry : tensor.value.items()) {
        one.spec.push_back(ReadAxisGroup(entry));
      }
      out.push_back(std::move(one));
    }
  }
  return true;
}

}  // namespace shardc
