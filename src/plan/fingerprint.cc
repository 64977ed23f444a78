// Computes the fingerprint and the totals of a plan. The fingerprint is the
// SHA-256 of a canonical JSON text (RFC 8785). The text has what the plan
// states about sharding, such as the mesh, shapes and specs.
//
// RFC 8785 sorts members by UTF-16 code units, and prescribes the shortest
// escapes of strings and ECMAScript's text of doubles. The canonical style of
// the JSON writer handles strings and doubles. This file sorts the members. For
// example, the members of a parameter have this order:
//
//   {"dtype": "BF16", "modes": {..}, "placement": {..}, "shape": [8],
//    "spec": []}
#include "plan/fingerprint.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "comm/memory.h"
#include "plan/placement.h"
#include "source/digest.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/plain_json.h"
#include "source/size.h"
#include "source/text_order.h"
#include "source/utf8.h"

namespace shardc {
namespace {

// Returns the sort key of a member name: its UTF-16 code units.
std::u16string Utf16(std::string_view text) {
  std::u16string out;
  for (size_t i = 0; i < text.size();) {
    const CodePoint point = DecodeUtf8(text, i);
    i += std::max<size_t>(point.length, 1);
    if (point.length == 0) {
      // The JSON writer also writes U+FFFD for bytes that are not UTF-8.
      out += u'\uFFFD';
    } else if (point.value >= 0x10000) {
      out += static_cast<char16_t>(0xd800 + ((point.value - 0x10000) >> 10));
      out += static_cast<char16_t>(0xdc00 + ((point.value - 0x10000) & 0x3ff));
    } else {
      out += static_cast<char16_t>(point.value);
    }
  }
  return out;
}

// Parts of the JSON text of a parameter's entry, which all parameters with the
// same layout share. The members `placement`, `slices`, `stages` and
// `weight_decay` may differ between these parameters. They are written between
// the parts, because canonical JSON sorts members by name: dtype, modes, parts,
// placement, shape, slices, spec, stages, uneven, weight_decay.
struct LayoutText {
  std::string before_placement;
  std::string shape, spec, uneven;
  // The complete entry of a parameter that has none of the members which may
  // differ, with the quote and the colon that end the parameter's name.
  std::string whole;
};

template <class Write>
std::string MembersText(const Write& write) {
  return TextOf([&](Sink& out) {
    JsonWriter json = JsonWriter::OfMembers(out, JsonStyle::kCanonical);
    write(json);
  });
}

void WriteModes(JsonWriter& json, const Plan& plan, const ParamLayout& layout) {
  // The specs of modes, sorted by the name of the mode.
  std::map<std::string_view, const Spec*> modes;
  for (const ModeLayout* mode : DifferingModes(plan, layout)) {
    modes.emplace(ModeName(mode->mode), &mode->spec);
  }
  if (modes.empty()) return;
  json.Key("modes");
  json.BeginObject();
  for (const auto& [name, spec] : modes) {
    json.Member(name, WrittenBy(WriteSpec, *spec));
  }
  json.EndObject();
}

LayoutText TextsOf(const Plan& plan, const ParamLayout& layout) {
  const TensorType& type = plan.types[layout.type];
  LayoutText out;
  out.before_placement = MembersText([&](JsonWriter& json) {
    if (type.dtype) json.Member("dtype", DtypeName(*type.dtype));
    WriteModes(json, plan, layout);
    if (!layout.parts.empty()) {
      json.Member("parts", WrittenBy(WriteDimParts, layout.parts));
    }
  });
  out.shape = MembersText(
      [&](JsonWriter& json) { json.Member("shape", Given(type.shape)); });
  out.spec = MembersText([&](JsonWriter& json) {
    json.Member("spec", WrittenBy(WriteSpec, layout.modes[0].spec));
  });
  out.uneven = MembersText([&](JsonWriter& json) {
    if (layout.uneven) json.Member("uneven", true);
  });
  out.whole = std::string(JsonWriter::EndOfKey(JsonStyle::kCanonical)) + "{" +
              out.before_placement + (out.before_placement.empty() ? "" : ",") +
              out.shape + (out.shape.empty() ? "" : ",") + out.spec +
              (out.uneven.empty() ? "" : ",") + out.uneven + "}";
  return out;
}

// Returns whether the rules state the spec of an activation.
bool StatesActivations(const Plan& plan) {
  return std::any_of(
      plan.activations.begin(), plan.activations.end(),
      [](const ModeActivations& mode) {
        return std::any_of(
            mode.tensors.begin(), mode.tensors.end(),
            [](const ActivationLayout& layout) { return layout.IsStated(); });
      });
}

// Writes the specs of activations, with modes and tensors sorted by name.
// Writes nothing if there are none.
void WriteActivations(JsonWriter& json, std::string_view key,
                      const std::vector<ModeActivations>& of) {
  if (of.empty()) return;
  std::map<std::string_view, std::map<std::string_view, const Spec*>> modes;
  for (const ModeActivations& mode : of) {
    auto& tensors = modes[ModeName(mode.mode)];
    for (const ActivationLayout& layout : mode.tensors) {
      tensors[layout.tensor] = &layout.spec;
    }
  }
  json.Key(key);
  json.BeginObject();
  for (const auto& [mode, tensors] : modes) {
    json.Key(mode);
    json.BeginObject();
    for (const auto& [tensor, spec] : tensors) {
      json.Member(tensor, WrittenBy(WriteSpec, *spec));
    }
    json.EndObject();
  }
  json.EndObject();
}

// Returns the parameters sorted by the UTF-16 code units of their names.
std::vector<uint32_t> SortedParams(const Plan& plan) {
  const bool known = plan.plain_names && !plan.by_name.empty();
  return known ? plan.by_name : CanonicalOrder(plan.names);
}

// Adds `times * term` to `sum`. The sum becomes nullopt if a term is unknown or
// if the sum overflows.
void AddTimes(std::optional<int64_t>& sum, std::optional<int64_t> term,
              int64_t times) {
  if (term) term = CheckedMul(*term, times);
  sum = sum && term ? CheckedAdd(*sum, *term) : std::nullopt;
}

// Prefetches parameters that are written soon. Parameters are written in the
// order of their names, and in this order they are at random places in memory.
void FetchAhead(const Plan& plan, std::span<const uint32_t> order, size_t at) {
  constexpr size_t kNear = 48;
  constexpr size_t kFar = 96;
  if (at + kFar >= order.size()) return;
  const uint32_t far = order[at + kFar];
  __builtin_prefetch(plan.names.Address(far));
  __builtin_prefetch(&plan.params[far]);
  const std::string_view near = plan.names[order[at + kNear]];
  __builtin_prefetch(near.data());
  __builtin_prefetch(near.data() + near.size());
}

// Sums over a plan's parameters. CountParams() computes them in one pass.
struct ParamCounts {
  std::vector<int64_t> of_layout;
  // Indexed by layout: the number of placed parameters, which only the devices
  // at one coordinate of an axis hold.
  std::vector<int64_t> placed;
  // The bytes of placed parameters at each coordinate of each axis. A parameter
  // of unknown size adds 0.
  HeldBytes placed_bytes;
};

ParamCounts CountParams(const Plan& plan) {
  ParamCounts out;
  out.of_layout.resize(plan.layouts.size());
  out.placed.resize(plan.layouts.size());
  for (const PlannedParam& param : plan.params) {
    ++out.of_layout[param.layout];
    const auto coordinate = plan.CoordinateOf(param);
    if (!coordinate) continue;
    ++out.placed[param.layout];
    const ParamLayout& layout = plan.layouts[param.layout];
    out.placed_bytes.AddAt(PlacementAxis(plan, layout), *coordinate,
                           layout.modes[0].bytes_per_device.value_or(0));
  }
  return out;
}

// Returns the bytes of the fullest device, or nullopt if a parameter's bytes
// are unknown or the sum overflows.
std::optional<int64_t> FullestDevice(const Plan& plan,
                                     const ParamCounts& counts) {
  HeldBytes held = counts.placed_bytes;
  for (size_t i = 0; i < plan.layouts.size(); ++i) {
    if (counts.of_layout[i] == 0) continue;
    const auto bytes = plan.layouts[i].modes[0].bytes_per_device;
    const auto all =
        bytes ? CheckedMul(*bytes, counts.of_layout[i] - counts.placed[i])
              : std::nullopt;
    if (!all) return std::nullopt;
    held.Add(*all);
  }
  return held.Fullest();
}

}  // namespace

// Returns the order of names. Sorting by UTF-8 bytes is faster than sorting by
// UTF-16 code units. Both orders are equal unless a name has a character above
// U+FFFF, which takes four bytes in UTF-8. A condition that is sufficient and
// simple to test is used: the names are sorted by bytes if no character takes
// more than two bytes.
std::vector<uint32_t> CanonicalOrder(Texts names) {
  const bool plain =
      std::all_of(names.begin(), names.end(), [](std::string_view name) {
        const size_t ascii = EndOfPlain(name);
        return std::all_of(name.begin() + ascii, name.end(), [](char c) {
          return static_cast<unsigned char>(c) < 0xe0;
        });
      });
  if (plain) return OrderOf(names).order;
  std::vector<uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::u16string> keys;
  for (const std::string_view name : names) keys.push_back(Utf16(name));
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  return order;
}

bool HasOwnMembers(const Plan& plan, size_t param) {
  return plan.params[param].IsPlaced() || plan.has_weight_decay ||
         plan.StagesOf(param) != nullptr;
}

std::vector<const ModeLayout*> DifferingModes(const Plan& plan,
                                              const ParamLayout& layout) {
  std::vector<const ModeLayout*> out;
  for (const ModeLayout& mode : layout.modes) {
    const bool asked = IsAmong(mode.mode, plan.modes);
    if (asked && mode.spec != layout.modes[0].spec) out.push_back(&mode);
  }
  return out;
}

PlanSummary Summarize(const Plan& plan) {
  PlanSummary summary;
  summary.params = static_cast<int64_t>(plan.params.size());
  summary.elements = 0;
  summary.bytes = 0;
  const ParamCounts params = CountParams(plan);
  const std::vector<int64_t>& counts = params.of_layout;
  for (size_t i = 0; i < plan.layouts.size(); ++i) {
    const ParamLayout& layout = plan.layouts[i];
    const TensorType& type = plan.types[layout.type];
    AddTimes(summary.elements, type.Elements(), counts[i]);
    AddTimes(summary.bytes, type.Bytes(), counts[i]);
    if (layout.unmatched) summary.unmatched += counts[i];
    bool corrected = false;
    bool illegal = false;
    for (const ModeLayout& mode : layout.modes) {
      corrected = corrected || !mode.edits.empty();
      illegal = illegal || !mode.problems.empty();
    }
    if (corrected) summary.corrected += counts[i];
    if (illegal) summary.illegal += counts[i];
  }
  summary.bytes_per_device = FullestDevice(plan, params);
  return summary;
}

void WriteCanonicalPlan(const Plan& plan, Sink& out) {
  std::vector<LayoutText> layouts;
  layouts.reserve(plan.layouts.size());
  for (const ParamLayout& layout : plan.layouts) {
    layouts.push_back(TextsOf(plan, layout));
  }
  JsonWriter json(out, JsonStyle::kCanonical);
  json.BeginObject();
  if (StatesActivations(plan)) {
    WriteActivations(json, "activations", plan.activations);
  }
  WriteActivations(json, "attention", plan.attention);
  if (!plan.kv.empty()) {
    json.Member("kv", WrittenBy(WriteKv, plan.kv));
  }
  json.Member("mesh", WrittenBy(WriteMesh, plan.mesh, MeshDetail::kAll));
  json.Key("modes");
  json.Array(plan.modes, ModeName);
  json.Key("params");
  json.BeginObject();
  const std::vector<uint32_t> order = SortedParams(plan);
  for (size_t at = 0; at < order.size(); ++at) {
    FetchAhead(plan, order, at);
    const uint32_t i = order[at];
    const PlannedParam& param = plan.params[i];
    const LayoutText& layout = layouts[param.layout];
    if (!HasOwnMembers(plan, i)) {
      json.WrittenMember(plan.names[i], plan.plain_names, layout.whole);
      continue;
    }
    json.Key(plan.names[i], plan.plain_names);
    json.BeginObject();
    json.Members(layout.before_placement);
    WritePlacement(json, plan, param);
    json.Members(layout.shape);
    const ParamStages* stages = plan.StagesOf(i);
    const bool sliced = stages != nullptr && stages->dim;
    if (sliced) WriteSlices(json, *plan.stages, *stages);
    json.Members(layout.spec);
    if (stages != nullptr && !sliced) WriteStageNumbers(json, *stages);
    json.Members(layout.uneven);
    if (plan.has_weight_decay) {
      json.Member("weight_decay", plan.WeightDecayOf(i));
    }
    json.EndObject();
  }
  json.EndObject();
  if (plan.stages) {
    json.Member("stages", WrittenBy(WritePlanStages, *plan.stages,
                                    ScheduleName::kLeftOut));
  }
  json.EndObject();
}

void WritePlacement(JsonWriter& json, const Plan& plan,
                    const PlannedParam& param) {
  const auto coordinate = plan.CoordinateOf(param);
  if (!coordinate) return;
  WritePlacement(json, PlacementAxis(plan, plan.layouts[param.layout]),
                 *coordinate);
}

void WriteStatedActivations(JsonWriter& json, const Plan& plan) {
  std::vector<std::string_view> stated;
  for (const ActivationLayout& layout : plan.activations.front().tensors) {
    if (layout.IsStated()) stated.push_back(layout.tensor);
  }
  if (!stated.empty()) json.Member("activations_stated", stated);
}

std::string ActivationsDigest(const Plan& plan) {
  Sha256Sink digest;
  JsonWriter json(digest, JsonStyle::kCanonical);
  json.BeginObject();
  WriteActivations(json, "activations", plan.activations);
  WriteStatedActivations(json, plan);
  json.Member("axes", WrittenBy(WritePlanAxes, plan.axes));
  json.EndObject();
  return "sha256:" + digest.Hex();
}

std::string Fingerprint(const Plan& plan) {
  Sha256Sink digest;
  WriteCanonicalPlan(plan, digest);
  return "sha256:" + digest.Hex();
}

}  // namespace shardc
