// RFC 8785 asks for members sorted by UTF-16 code units, the shortest string
// escapes and numbers as ECMAScript prints doubles; the writer's canonical
// style has the latter two.
#include "plan/fingerprint.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "comm/memory.h"
#include "plan/placement.h"
#include "source/checked.h"
#include "source/digest.h"
#include "source/json_writer.h"
#include "source/utf8.h"

namespace shardc {
namespace {

// Sort key of a member name: its UTF-16 code units.
std::u16string Utf16(std::string_view text) {
  std::u16string out;
  for (size_t i = 0; i < text.size();) {
    const CodePoint point = DecodeUtf8(text, i);
    i += std::max<size_t>(point.length, 1);
    if (point.length == 0) {
      out += u'\uFFFD';  // as the writer has it
    } else if (point.value >= 0x10000) {
      out += static_cast<char16_t>(0xd800 + ((point.value - 0x10000) >> 10));
      out += static_cast<char16_t>(0xdc00 + ((point.value - 0x10000) & 0x3ff));
    } else {
      out += static_cast<char16_t>(point.value);
    }
  }
  return out;
}

// Everything of a parameter but its placement and weight decay, which are its
// own. The members
// are sorted: dtype, modes, placement, shape, spec, weight_decay.
struct LayoutText {
  std::string before_placement;
  std::string after_placement;
};

template <class Write>
std::string MembersText(const Write& write) {
  return TextOf([&](Sink& out) {
    JsonWriter json = JsonWriter::OfMembers(out, JsonStyle::kCanonical);
    write(json);
  });
}

void WriteModes(JsonWriter& json, const Plan& plan, const ParamLayout& layout) {
  std::map<std::string_view, const Spec*> modes;  // sorted by name
  for (const ModeLayout* mode : DifferingModes(plan, layout)) {
    modes.emplace(ModeName(mode->mode), &mode->spec);
  }
  if (modes.empty()) return;
  json.Key("modes");
  json.BeginObject();
  for (const auto& [name, spec] : modes) {
    json.Key(name);
    WriteSpec(json, *spec);
  }
  json.EndObject();
}

LayoutText TextsOf(const Plan& plan, const ParamLayout& layout) {
  const TensorType& type = plan.types[layout.type];
  return {MembersText([&](JsonWriter& json) {
            if (type.dtype) json.Member("dtype", DtypeName(*type.dtype));
            WriteModes(json, plan, layout);
          }),
          MembersText([&](JsonWriter& json) {
            if (type.shape) json.Member("shape", *type.shape);
            json.Key("spec");
            WriteSpec(json, layout.modes[0].spec);
          })};
}

// Absent where the plan has none; modes and tensors sorted by name.
void WriteAttention(JsonWriter& json, const Plan& plan) {
  if (plan.attention.empty()) return;
  std::map<std::string_view, std::map<std::string_view, const Spec*>> modes;
  for (const ModeAttention& mode : plan.attention) {
    auto& tensors = modes[ModeName(mode.mode)];
    for (const AttentionLayout& layout : mode.tensors) {
      tensors[layout.tensor] = &layout.spec;
    }
  }
  json.Key("attention");
  json.BeginObject();
  for (const auto& [mode, tensors] : modes) {
    json.Key(mode);
    json.BeginObject();
    for (const auto& [tensor, spec] : tensors) {
      json.Key(tensor);
      WriteSpec(json, *spec);
    }
    json.EndObject();
  }
  json.EndObject();
}

// Parameters by name, as UTF-16 code units. Byte order is UTF-16 order unless
// a name leaves the basic plane.
std::vector<uint32_t> SortedParams(const Plan& plan) {
  std::vector<uint32_t> order(plan.params.size());
  std::iota(order.begin(), order.end(), 0);
  const bool plain = std::none_of(
      plan.names.begin(), plan.names.end(), [](const std::string& name) {
        return std::any_of(name.begin(), name.end(), [](char c) {
          return static_cast<unsigned char>(c) >= 0xe0;
        });
      });
  if (plain) {
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return plan.names[a] < plan.names[b];
    });
  } else {
    std::vector<std::u16string> keys;
    for (const std::string& name : plan.names) keys.push_back(Utf16(name));
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  }
  return order;
}

// Nothing where a parameter's bytes are not known.
std::optional<int64_t> FullestDevice(const Plan& plan) {
  HeldBytes held;
  for (const PlannedParam& param : plan.params) {
    const ParamLayout& layout = plan.layouts[param.layout];
    const auto bytes = layout.modes[0].bytes_per_device;
    if (!bytes) return std::nullopt;
    if (!param.coordinate) {
      held.Add(*bytes);
      continue;
    }
    held.AddAt(PlacementAxis(plan, layout), *param.coordinate, *bytes);
  }
  return held.Fullest();
}

}  // namespace

std::vector<const ModeLayout*> DifferingModes(const Plan& plan,
                                              const ParamLayout& layout) {
  std::vector<const ModeLayout*> out;
  for (const ModeLayout& mode : layout.modes) {
    const bool asked = std::find(plan.modes.begin(), plan.modes.end(),
                                 mode.mode) != plan.modes.end();
    if (asked && mode.spec != layout.modes[0].spec) out.push_back(&mode);
  }
  return out;
}

PlanSummary Summarize(const Plan& plan) {
  PlanSummary summary;
  summary.params = static_cast<int64_t>(plan.params.size());
  summary.elements = 0;
  summary.bytes = 0;
  for (const PlannedParam& param : plan.params) {
    const ParamLayout& layout = plan.layouts[param.layout];
    const TensorType& type = plan.types[layout.type];
    const auto elements = type.Elements();
    const auto bytes = type.Bytes();
    summary.elements = summary.elements && elements
                           ? CheckedAdd(*summary.elements, *elements)
                           : std::nullopt;
    summary.bytes = summary.bytes && bytes ? CheckedAdd(*summary.bytes, *bytes)
                                           : std::nullopt;
    if (layout.unmatched) ++summary.unmatched;
    bool corrected = false;
    bool illegal = false;
    for (const ModeLayout& mode : layout.modes) {
      corrected = corrected || !mode.edits.empty();
      illegal = illegal || !mode.problems.empty();
    }
    if (corrected) ++summary.corrected;
    if (illegal) ++summary.illegal;
  }
  summary.bytes_per_device = FullestDevice(plan);
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
  WriteAttention(json, plan);
  json.Key("mesh");
  WriteMesh(json, plan.mesh);
  json.Key("modes");
  json.Array(plan.modes, ModeName);
  json.Key("params");
  json.BeginObject();
  for (const uint32_t i : SortedParams(plan)) {
    const PlannedParam& param = plan.params[i];
    const LayoutText& layout = layouts[param.layout];
    json.Key(plan.names[i]);
    json.BeginObject();
    json.Members(layout.before_placement);
    WritePlacement(json, plan, param);
    json.Members(layout.after_placement);
    if (plan.has_weight_decay) json.Member("weight_decay", param.weight_decay);
    json.EndObject();
  }
  json.EndObject();
  json.EndObject();
}

void WritePlacement(JsonWriter& json, const Plan& plan,
                    const PlannedParam& param) {
  if (!param.coordinate) return;
  WritePlacement(json, PlacementAxis(plan, plan.layouts[param.layout]),
                 *param.coordinate);
}

std::string Fingerprint(const Plan& plan) {
  Sha256Sink digest;
  WriteCanonicalPlan(plan, digest);
  return "sha256:" + digest.Hex();
}

}  // namespace shardc
