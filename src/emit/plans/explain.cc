// Prints why a parameter got its spec, for `shardc explain`. The plan records
// how each name in a spec was resolved, and how the spec was corrected. This
// file prints these records. It also computes three facts that the plan does
// not have: the part of the parameter's name that the rule's pattern matched,
// the most similar rule if no rule matched, and the slices of the parameter
// that a given device holds.
//
// For example, this line states that dimension 0 has the logical axis VOCAB,
// which the axis rule `vocab` resolves to the mesh axis tp:
//
//   dim 0     VOCAB -> "tp" (token, rule vocab)
#include "emit/plans/explain.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emit/plans/explain_facts.h"
#include "emit/plans/rules_file.h"
#include "model/mesh_layout.h"
#include "plan/compile.h"
#include "plan/fingerprint.h"
#include "plan/nearest.h"
#include "plan/placement.h"
#include "plan/planned_stages.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {

// Writes the pipeline stages that hold a parameter, one per line. A parameter
// of one layer is in one stage. A tied embedding is in both the first and the
// last stage. A tensor that stacks several layers is in each stage that has
// some of these layers. For example, a tensor of 16 layers is in two stages:
//
//   stage 0 of 4 over `pp`, on rank 0: layers 0-7
//   stage 1 of 4 over `pp`, on rank 1: layers 8-15

class JsonWriter;

// Returns a line for each stage of the parameter: "stage 2 of 4 over `pp`, on
// rank 2".
std::string StageLines(const PlannedStages& stages, size_t param) {
  std::string out;
  const LayerStackRange* stack = stages.units.StackOf(param);
  for (const StageShare& share : stages.SharesOf(param)) {
    out += "stage " + std::to_string(share.stage) + " of " +
           std::to_string(stages.stages()) + " over `" + stages.axis +
           "`, on " + RanksText(stages.RanksOf(share.stage));
    if (stack != nullptr) {
      out += ": " +
             LayersText({stack->first + share.begin, stack->first + share.end});
    }
    out += "\n";
  }
  return out;
}

// Writes the member "stages": {"axis", "of": [{"stage", "ranks", "layers"}]}.
// "layers" is written only for a tensor of stacked layers.
void WriteParamStages(JsonWriter& json, const PlannedStages& stages,
                      size_t param) {
  const LayerStackRange* stack = stages.units.StackOf(param);
  json.Key("stages");
  json.BeginObject();
  json.Member("axis", stages.axis);
  json.Records("of", stages.SharesOf(param), [&](const StageShare& share) {
    json.Members("stage", share.stage, "ranks", stages.RanksOf(share.stage));
    if (stack != nullptr) {
      json.Member("layers", std::array{stack->first + share.begin,
                                       stack->first + share.end});
    }
  });
  json.EndObject();
}

namespace {

const ParamLayout& LayoutOf(const Compiled& c, size_t param) {
  return c.plan.layouts[c.plan.params[param].layout];
}

// Returns the number of rules that were tried: the rules up to and including
// the first match, or all rules if none matched. Returns 0 if no rule was
// tried, as for a scalar.
size_t Tried(const Compiled& c, size_t param) {
  const int32_t rule = LayoutOf(c, param).rule;
  if (rule >= 0) return AsIndex(rule) + 1;
  return LayoutOf(c, param).unmatched ? c.rules.rules.size() : 0;
}

// Returns the part of the name that the rule's pattern matches.
std::string MatchedPart(const Compiled& c, size_t rule, size_t param) {
  const std::string_view name = c.plan.names[param];
  const auto range = c.matcher->Find(rule, name, c.manifest.separator);
  if (!range) return {};
  return std::string(name.substr(range->first, range->second - range->first));
}

std::string RuleLabel(const Compiled& c, size_t rule) {
  return "[" + std::to_string(rule) + "] " +
         Printable(c.plan.rules[rule].match) + "  (" +
         Printable(c.plan.rules[rule].source) + ")";
}

// Returns a text with the parallelism axes (`dp`, `tp`, ...) that the mesh
// lacks, or an empty text if the mesh has all of them. A missing axis acts as
// an axis of size 1 and is left out of the spec, except with `compat: eformer`.
std::string LeftOut(const Compiled& c, const NameTrace& trace) {
  std::string out;
  for (const std::string& axis : trace.axes) {
    if (!c.resolver->IsAbsentParallelism(axis)) continue;
    out += (out.empty() ? ", not in this mesh: " : ", ") + axis;
  }
  return out;
}

std::string TraceText(const Compiled& c, const NameTrace& trace) {
  std::string out = trace.name + " -> " + GroupText(trace.axes) + " (" +
                    std::string(trace.kind);
  if (!trace.rule.empty()) out += ", rule " + trace.rule;
  if (trace.decode_fallback) {
    out += ", its decode rule is null, so the standard rule applies";
  }
  return out + LeftOut(c, trace) + ")";
}

std::string EditText(const Edit& edit, const ModeLayout& mode) {
  std::string out = std::string(ReasonName(edit.reason)) + ": ";
  if (edit.dim) {
    out +=
        "dimension " + std::to_string(*edit.dim) + " " + GroupText(edit.from);
  } else {
    out += SpecText(mode.resolved);
  }
  switch (edit.reason) {
    case Reason::kIndivisible:
      if (edit.dim_parts.several()) {
        out += ", " + PartsProblemText(edit);
      } else if (edit.parts > 0 && edit.size % edit.parts == 0) {
        out += ", which would split a block of its dtype";
      } else if (edit.parts > 0) {
        out += ", " + std::to_string(edit.size) + " % " +
               std::to_string(edit.parts) + " = " +
               std::to_string(edit.size % edit.parts);
      }
      break;
    case Reason::kMissingAxis:
      out += ", the mesh has no axis `" + edit.axis + "`";
      break;
    case Reason::kRepeatedAxis:
      out += ", `" + edit.axis + "`" +
             (std::count(edit.from.begin(), edit.from.end(), edit.axis) > 1
                  ? " is twice in this dimension"
                  : " shards an earlier dimension");
      break;
    case Reason::kTooLong:
      out += ", the parameter has no such dimension";
      break;
    case Reason::kMinSize:
      out += ", fewer elements than min_size";
      break;
    case Reason::kScalar:
      out += ", a scalar cannot be sharded";
      break;
    case Reason::kKvHeads:
      out += ", " + KvProblemText(edit);
      break;
  }
  return out;
}

std::string AddedText(const ModeLayout& mode) {
  if (mode.edits.empty() || !mode.bytes_per_device ||
      !mode.uncorrected_bytes_per_device) {
    return "";
  }
  return ", +" +
         BytesText(*mode.bytes_per_device -
                   *mode.uncorrected_bytes_per_device) +
         " due to corrections";
}

// Returns the text of a mode without its heading. `stacked` is true if the
// parameter holds the layers of several stages, so that a device has only some
// of these layers.
std::string ModeBody(const Compiled& c, const ModeLayout& mode,
                     const ParamLayout& layout,
                     const std::optional<DevicePlace>& holder, bool stacked) {
  std::string out;
  const TensorType& type = c.plan.types[layout.type];
  if (mode.spec_rule != layout.rule && mode.spec_rule >= 0) {
    out += "  spec of rule " + RuleLabel(c, AsIndex(mode.spec_rule)) + "\n";
  }
  if (!mode.why.bundle.empty()) {
    out += "  bundle    " + Printable(mode.why.bundle) + "\n";
  }
  for (size_t d = 0; d < mode.why.traces.size(); ++d) {
    for (const NameTrace& trace : mode.why.traces[d]) {
      out += "  dim " + std::to_string(d) + "     " +
             Printable(TraceText(c, trace)) + "\n";
    }
  }
  out += "  resolved  " + SpecText(mode.resolved) + "\n";
  for (const Edit& problem : mode.problems) {
    out += "  illegal   " + EditText(problem, mode) + "\n";
  }
  if (!mode.problems.empty()) return out;
  for (const Edit& edit : mode.edits) {
    out += "  corrected " + EditText(edit, mode) + " becomes " +
           (edit.dim ? GroupText(edit.to) : SpecText(mode.spec)) + "\n";
  }
  out += "  spec      " + SpecText(mode.spec) + "\n";
  if (mode.kv) {
    const int64_t devices = c.mesh.Parts(mode.kv->axes).value_or(1);
    out += "  KV heads  " + std::to_string(mode.kv->heads) + " over " +
           GroupText(mode.kv->axes) + " of " + std::to_string(devices) +
           ": device i holds head i * " + std::to_string(mode.kv->heads) +
           " / " + std::to_string(devices) + " (kv_replicate)\n";
  }
  const DimParts parts = ShardedParts(layout.parts, mode.spec);
  for (size_t d = 0; d < parts.size(); ++d) {
    if (!parts[d].several()) continue;
    out += "  parts     dimension " + std::to_string(d) + " has " +
           (parts[d].sizes.empty()
                ? std::to_string(parts[d].count) + " equal parts"
                : "parts of " + ListInWords(parts[d].sizes,
                                            [](int64_t size) {
                                              return std::to_string(size);
                                            })) +
           ", each of which " + GroupText(mode.spec[d]) + " divides\n";
  }
  if (mode.shard_shape) {
    out += "  shard     " + ShapeText(*mode.shard_shape);
    if (mode.bytes_per_device) {
      out += ", " + BytesText(*mode.bytes_per_device) +
             (stacked ? " with the layers of all stages" : " per device") +
             AddedText(mode);
    }
    out += "\n";
    for (const size_t d : UnevenDims(c.mesh, *type.shape, mode.spec)) {
      out += "  uneven    dimension " + std::to_string(d) + " is " +
             UnevenText(c.mesh, mode.spec[d], (*type.shape)[d]) + "\n";
    }
  }
  if (!holder) return out;
  if (const auto slices = SlicesOf(c.mesh, *holder, type, layout.parts, mode)) {
    out += "  device " + std::to_string(holder->device) + "  " +
           SlicesText(*slices) + "\n";
  }
  return out;
}

// Appends the text of each mode. Modes with the same text share a heading,
// which is at the position of the first of these modes.
void AddModes(std::string& out, const Compiled& c, const ParamLayout& layout,
              const std::optional<DevicePlace>& holder, bool stacked) {
  // Each pair is (body, heading).
  std::vector<std::pair<std::string, std::string>> sections;
  for (const ModeLayout& mode : layout.modes) {
    const std::string body = ModeBody(c, mode, layout, holder, stacked);
    const auto same =
        std::find_if(sections.begin(), sections.end(),
                     [&](const auto& each) { return each.first == body; });
    if (same == sections.end()) {
      sections.emplace_back(body, ModeName(mode.mode));
    } else {
      same->second += ", " + std::string(ModeName(mode.mode));
    }
  }
  for (const auto& [body, heading] : sections) {
    out.append("\n").append(heading).append("\n").append(body);
  }
}

// Returns whether the device holds a shard of the parameter. It does not if
// only the devices at another coordinate of an axis hold the parameter, or if
// the parameter is in a pipeline stage of other devices.
bool Holds(const Compiled& c, size_t param, const DevicePlace& device) {
  if (const auto& stages = c.plan.stages) {
    const auto axis = c.mesh.Find(stages->axis);
    if (axis &&
        !stages->Holds(*c.plan.StagesOf(param), device.coordinates[*axis])) {
      return false;
    }
  }
  const auto coordinate = c.plan.CoordinateOf(c.plan.params[param]);
  if (!coordinate) return true;
  const auto axis = c.mesh.Find(PlacementAxis(c.plan, LayoutOf(c, param)));
  return !axis || device.coordinates[*axis] == *coordinate;
}

bool IsStacked(const PlannedStages* stages, size_t param) {
  return stages != nullptr && stages->units.StackOf(param) != nullptr;
}

void AddRulesTried(std::string& out, const Compiled& c, size_t param) {
  const size_t tried = Tried(c, param);
  const int32_t rule = LayoutOf(c, param).rule;
  if (tried == 0) {
    out += "\nno rule is tried: a scalar cannot be sharded\n";
    return;
  }
  out += "\nrules tried, the first match wins\n";
  for (size_t i = 0; i < tried; ++i) {
    const bool wins = static_cast<int32_t>(i) == rule;
    out += wins ? "  match     " : "  no match  ";
    out += RuleLabel(c, i);
    if (wins) out += " in `" + Printable(MatchedPart(c, i, param)) + "`";
    out += "\n";
  }
  std::string later;
  for (uint32_t other : c.matches.Of(param)) {
    if (static_cast<int32_t>(other) <= rule || rule < 0) continue;
    later += (later.empty() ? "[" : ", [") + std::to_string(other) + "]";
  }
  if (!later.empty()) out += "  later rules that match too: " + later + "\n";
  for (const std::string& line : InferredSeparators(c.rules)) {
    out += "  separator " + Printable(line) + "\n";
  }
  if (rule < 0) {
    const NearestRules nearest(c.rules.rules, c.matches, c.manifest.separator);
    if (const auto near = nearest.Of(c.plan.names[param])) {
      out += "  nearest   " + RuleLabel(c, AsIndex(near->rule)) + "\n";
    }
  }
}

void WriteEdits(JsonWriter& json, std::string_view key,
                const std::vector<Edit>& edits, const ModeLayout& mode) {
  if (edits.empty()) return;
  json.Records(key, edits, [&](const Edit& edit) {
    json.Members("dim", edit.dim, "reason", ReasonName(edit.reason), "text",
                 EditText(edit, mode));
  });
}

void WriteTraces(JsonWriter& json, const Resolved& why) {
  json.Key("names");
  json.BeginArray();
  for (size_t d = 0; d < why.traces.size(); ++d) {
    for (const NameTrace& trace : why.traces[d]) {
      json.Object("dim", d, "name", trace.name, "kind", trace.kind, "rule",
                  trace.rule, "axes", WrittenBy(WriteGroup, trace.axes),
                  "decode_fallback", trace.decode_fallback);
    }
  }
  json.EndArray();
}

void WriteRulesTried(JsonWriter& json, const Compiled& c, size_t param) {
  json.Key("rules_tried");
  json.BeginArray(JsonLayout::kLines);
  const size_t tried = Tried(c, param);
  for (size_t i = 0; i < tried; ++i) {
    json.Object("rule", i, "match", c.plan.rules[i].match, "source",
                c.plan.rules[i].source, "matched",
                static_cast<int32_t>(i) == LayoutOf(c, param).rule
                    ? std::optional(MatchedPart(c, i, param))
                    : std::nullopt);
  }
  if (tried == 0) json.Break(2);
  json.EndArray();
}

void WriteMode(JsonWriter& json, const Compiled& c, const TensorType& type,
               const DimParts& parts, const ModeLayout& mode,
               const std::optional<DevicePlace>& holder) {
  json.Key(ModeName(mode.mode));
  json.BeginObject();
  WriteTraces(json, mode.why);
  json.Members("resolved", WrittenBy(WriteSpec, mode.resolved), "spec",
               mode.problems.empty()
                   ? std::optional(WrittenBy(WriteSpec, mode.spec))
                   : std::nullopt);
  if (const auto sharded = ShardedParts(parts, mode.spec); !sharded.empty()) {
    json.Member("parts", WrittenBy(WriteDimParts, sharded));
  }
  json.Members("shard_shape", mode.shard_shape, "bytes_per_device",
               mode.bytes_per_device);
  if (mode.shard_shape && !DividesEvenly(c.mesh, *type.shape, mode.spec)) {
    json.Member("uneven", true);
  }
  WriteKvReplicas(json, mode.kv);
  WriteEdits(json, "corrections", mode.edits, mode);
  WriteEdits(json, "illegal", mode.problems, mode);
  if (holder) {
    json.Key("slices");
    WriteSlices(json, SlicesOf(c.mesh, *holder, type, parts, mode));
  }
  json.EndObject();
}

}  // namespace

std::string ExplainText(const Compiled& c, size_t param,
                        const std::optional<DevicePlace>& device) {
  const PlannedStages* stages = c.stages.get();
  const ParamLayout& layout = LayoutOf(c, param);
  const TensorType& type = c.plan.types[layout.type];
  std::string out = Printable(c.plan.names[param]) + "\n";
  out += type.shape ? ShapeText(*type.shape) : "shape unknown";
  if (type.dtype) out += " " + std::string(DtypeName(*type.dtype));
  if (const auto bytes = type.Bytes()) out += ", " + BytesText(*bytes);
  out += "\nmesh " + MeshText(c.mesh) + "\n";
  out += ParameterFactsText(c, param);
  AddRulesTried(out, c, param);
  const auto coordinate = c.plan.CoordinateOf(c.plan.params[param]);
  if (coordinate) {
    out += "\nplaced where axis `" + PlacementAxis(c.plan, layout) +
           "` has coordinate " + std::to_string(*coordinate) + "\n";
  }
  if (stages != nullptr) out += "\n" + StageLines(*stages, param);
  std::optional<DevicePlace> holder = device;
  if (device) {
    if (!Holds(c, param, *device)) holder.reset();
    out += "\n" + PlaceText(c.mesh, *device) +
           (holder ? "" : ", holds no part of it") + "\n";
  }
  // The slices of a stacked tensor are not printed: they would be slices of all
  // layers, whereas the device's stage has only some of the layers.
  if (IsStacked(stages, param)) holder.reset();
  AddModes(out, c, layout, holder, IsStacked(stages, param));
  return out;
}

void WriteExplainJson(const Compiled& c, size_t param, Sink& out,
                      const std::optional<DevicePlace>& device) {
  const PlannedStages* stages = c.stages.get();
  const ParamLayout& layout = LayoutOf(c, param);
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("param", c.plan.names[param]);
  WriteTypeMembers(json, c.plan.types[layout.type]);
  json.Key("facts");
  json.BeginObject();
  WriteParameterFacts(json, c, param);
  json.EndObject();
  json.Member("unmatched", layout.unmatched);
  WriteRulesTried(json, c, param);
  json.Member("rule",
              layout.rule < 0 ? std::nullopt : std::optional(layout.rule));
  WritePlacement(json, c.plan, c.plan.params[param]);
  if (stages != nullptr) WriteParamStages(json, *stages, param);
  std::optional<DevicePlace> holder = device;
  if (device) {
    json.Member("device", WrittenBy(WritePlace, c.mesh, *device));
    if (!Holds(c, param, *device)) holder.reset();
    json.Member("holds", holder.has_value());
  }
  if (IsStacked(stages, param)) holder.reset();
  json.Key("modes");
  json.BeginObject(JsonLayout::kLines);
  for (const ModeLayout& mode : layout.modes) {
    WriteMode(json, c, c.plan.types[layout.type], layout.parts, mode, holder);
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

// Computes the part of a parameter that a device holds. A device's shard index
// along a dimension is a mixed-radix number. Its digits are the device's
// coordinates on the axes that shard the dimension, the major axis first. If
// all shards have the same length, the device's part starts at the index times
// this length (model/mesh_layout.h has the general case). For example:
//
//   [tp, dp] of 2 and 2, tp=1 dp=1, shards of 16: index 3, elements 48:64

std::string PlaceText(const Mesh& mesh, const DevicePlace& place) {
  std::string out = "device " + std::to_string(place.device) + ":";
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    out += " " + Printable(mesh.axes[i].name) + "=" +
           std::to_string(place.coordinates[i]);
  }
  out += ", process " + std::to_string(place.process);
  if (mesh.slices > 1) {
    out += ", slice " + std::to_string(place.slice) + ", position " +
           std::to_string(place.position);
  }
  return out;
}

void WritePlace(JsonWriter& json, const Mesh& mesh, const DevicePlace& place) {
  json.BeginObject();
  json.Members("device", place.device, "position", place.position);
  json.Key("coordinates");
  json.BeginObject();
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    json.Member(mesh.axes[i].name, place.coordinates[i]);
  }
  json.EndObject();
  json.Members("process", place.process, "slice", place.slice);
  json.EndObject();
}

std::optional<Slices> SlicesOf(const Mesh& mesh, const DevicePlace& place,
                               const TensorType& type, const DimParts& parts,
                               const ModeLayout& mode) {
  if (!mode.shard_shape || !mode.problems.empty()) return std::nullopt;
  const DimParts sharded = ShardedParts(parts, mode.spec);
  Slices out;
  for (size_t d = 0; d < type.shape->size(); ++d) {
    const auto sizes = SizesOfParts(PartsAt(sharded, d), (*type.shape)[d]);
    if (!sizes) return std::nullopt;
    out.emplace_back();
    int64_t begin = 0;
    for (const int64_t size : *sizes) {
      const ShardRange range =
          RangeAlong(mesh, place.coordinates, AxesAt(mode.spec, d), size);
      out.back().emplace_back(begin + range.begin, begin + range.end());
      begin += size;
    }
  }
  return out;
}

std::string UnevenText(const Mesh& mesh, const AxisGroup& axes, int64_t size) {
  const int64_t parts = mesh.Parts(axes).value_or(1);
  const auto of_shard = [&](int64_t index) {
    return std::to_string(
        RangeOfShard(size, AxisSizes(mesh, axes), index).size);
  };
  return std::to_string(size) + ", which " + GroupText(axes) + " splits into " +
         std::to_string(parts) + " shards of at most " + of_shard(0) +
         ", the last of " + of_shard(parts - 1);
}

std::string SlicesText(const Slices& slices) {
  const auto text = [](const auto& range) {
    return std::to_string(range.first) + ":" + std::to_string(range.second);
  };
  std::string out;
  for (const auto& ranges : slices) {
    AppendItem(out, ", ", Join(ranges, "+", text));
  }
  return "[" + out + "]";
}

void WriteSlices(JsonWriter& json, const std::optional<Slices>& slices) {
  if (!slices) {
    json.Null();
    return;
  }
  json.BeginArray();
  for (const auto& ranges : *slices) {
    if (ranges.size() > 1) json.BeginArray();
    for (const auto& [begin, end] : ranges) {
      json.Array(std::array{begin, end});
    }
    if (ranges.size() > 1) json.EndArray();
  }
  json.EndArray();
}

}  // namespace shardc
