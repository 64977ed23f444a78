// RFC 8785 asks for members sorted by UTF-16 code units, the shortest string
// escapes and numbers as ECMAScript prints doubles. Our numbers are integers,
// so only those beyond 2^53 need care.
#include "plan/fingerprint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "source/checked.h"
#include "source/digest.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr int64_t kExactDoubles = int64_t{1} << 53;

void AppendNumber(std::string& out, int64_t value) {
  if (value <= kExactDoubles && value >= -kExactDoubles) {
    out += std::to_string(value);
    return;
  }
  // ECMAScript: the shortest digits of the double, padded with zeros.
  char digits[32];
  const auto end =
      std::to_chars(digits, digits + sizeof(digits), static_cast<double>(value),
                    std::chars_format::scientific)
          .ptr;
  std::string text(digits, end);
  const size_t e = text.find('e');
  const size_t exponent = std::stoul(text.substr(e + 2));
  std::string mantissa = text.substr(0, e);
  std::erase(mantissa, '.');
  const size_t sign = mantissa[0] == '-' ? 1 : 0;
  mantissa.resize(sign + exponent + 1, '0');
  out += mantissa;
}

// Sort key of a member name: its UTF-16 code units.
std::u16string Utf16(std::string_view text) {
  std::u16string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xe0 ? 2
                          : lead < 0xf0 ? 3
                                        : 4;
    char32_t point = length == 1 ? lead : lead & (0xffu >> (length + 1));
    for (size_t k = 1; k < length && i + k < text.size(); ++k) {
      point = (point << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3f);
    }
    i += length;
    if (point >= 0x10000) {
      out += static_cast<char16_t>(0xd800 + ((point - 0x10000) >> 10));
      out += static_cast<char16_t>(0xdc00 + ((point - 0x10000) & 0x3ff));
    } else {
      out += static_cast<char16_t>(point);
    }
  }
  return out;
}

void AppendGroup(std::string& out, const AxisGroup& group) {
  if (group.empty()) {
    out += "null";
  } else if (group.size() == 1) {
    AppendJsonString(out, group[0]);
  } else {
    for (size_t i = 0; i < group.size(); ++i) {
      out += i == 0 ? '[' : ',';
      AppendJsonString(out, group[i]);
    }
    out += ']';
  }
}

void AppendSpec(std::string& out, const Spec& spec) {
  out += '[';
  for (size_t i = 0; i < spec.size(); ++i) {
    if (i > 0) out += ',';
    AppendGroup(out, spec[i]);
  }
  out += ']';
}

void AppendMesh(std::string& out, const Mesh& mesh) {
  out += "{\"axes\":[";
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (i > 0) out += ',';
    out += "{\"name\":";
    AppendJsonString(out, mesh.axes[i].name);
    out += ",\"size\":";
    AppendNumber(out, mesh.axes[i].size);
    out += ",\"type\":";
    AppendJsonString(out, AxisTypeName(mesh.axes[i].type));
    out += '}';
  }
  out += ']';
  if (!mesh.dcn.empty()) {
    out += ",\"dcn\":[";
    for (size_t i = 0; i < mesh.dcn.size(); ++i) {
      if (i > 0) out += ',';
      AppendNumber(out, mesh.dcn[i]);
    }
    out += ']';
  }
  out += ",\"devices\":";
  AppendNumber(out, mesh.devices);
  if (mesh.processes != 1) {
    out += ",\"processes\":";
    AppendNumber(out, mesh.processes);
  }
  if (mesh.slices != 1) {
    out += ",\"slices\":";
    AppendNumber(out, mesh.slices);
  }
  out += '}';
}

// Everything of a parameter but its placement, which is its own. The members
// are sorted: dtype, modes, placement, shape, spec.
struct LayoutText {
  std::string before_placement;
  std::string after_placement;
};

LayoutText TextOf(const Plan& plan, const ParamLayout& layout) {
  LayoutText text;
  const TensorType& type = plan.types[layout.type];
  std::string& head = text.before_placement;
  if (type.dtype) {
    head += "\"dtype\":";
    AppendJsonString(head, DtypeName(*type.dtype));
    head += ',';
  }
  std::map<std::string_view, const Spec*> modes;  // sorted by name
  for (const ModeLayout* mode : DifferingModes(plan, layout)) {
    modes.emplace(ModeName(mode->mode), &mode->spec);
  }
  if (!modes.empty()) {
    head += "\"modes\":{";
    bool first = true;
    for (const auto& [name, spec] : modes) {
      if (!first) head += ',';
      first = false;
      AppendJsonString(head, name);
      head += ':';
      AppendSpec(head, *spec);
    }
    head += "},";
  }
  std::string& tail = text.after_placement;
  if (type.shape) {
    tail += "\"shape\":[";
    for (size_t i = 0; i < type.shape->size(); ++i) {
      if (i > 0) tail += ',';
      AppendNumber(tail, (*type.shape)[i]);
    }
    tail += "],";
  }
  tail += "\"spec\":";
  AppendSpec(tail, layout.modes[0].spec);
  tail += '}';
  return text;
}

void AppendPlacement(std::string& out, const Plan& plan,
                     const PlannedParam& param) {
  if (!param.coordinate) return;
  const int32_t rule = plan.layouts[param.layout].rule;
  out += "\"placement\":{\"axis\":";
  AppendJsonString(out, plan.placement_axes[static_cast<size_t>(rule)]);
  out += ",\"coordinate\":";
  AppendNumber(out, *param.coordinate);
  out += "},";
}

// The fullest device: what every device holds, plus for each placement axis
// its fullest coordinate (axes are independent of each other).
std::optional<int64_t> FullestDevice(const Plan& plan) {
  std::optional<int64_t> everywhere = 0;
  std::map<std::string_view, std::map<int64_t, std::optional<int64_t>>> placed;
  const auto add = [](std::optional<int64_t> a, std::optional<int64_t> b) {
    return a && b ? CheckedAdd(*a, *b) : std::nullopt;
  };
  for (const PlannedParam& param : plan.params) {
    const ParamLayout& layout = plan.layouts[param.layout];
    const auto bytes = layout.modes[0].bytes_per_device;
    if (!param.coordinate) {
      everywhere = add(everywhere, bytes);
      continue;
    }
    const auto& axis = plan.placement_axes[static_cast<size_t>(layout.rule)];
    auto [at, inserted] = placed[axis].try_emplace(*param.coordinate, 0);
    at->second = add(at->second, bytes);
  }
  for (const auto& [axis, coordinates] : placed) {
    std::optional<int64_t> fullest = 0;
    for (const auto& [coordinate, bytes] : coordinates) {
      if (!bytes) return std::nullopt;
      fullest = std::max(*fullest, *bytes);
    }
    everywhere = add(everywhere, fullest);
  }
  return everywhere;
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

std::string CanonicalPlan(const Plan& plan) {
  std::vector<LayoutText> layouts;
  layouts.reserve(plan.layouts.size());
  for (const ParamLayout& layout : plan.layouts) {
    layouts.push_back(TextOf(plan, layout));
  }
  // Byte order is UTF-16 order unless a name leaves the basic plane.
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

  std::string out = "{\"mesh\":";
  AppendMesh(out, plan.mesh);
  out += ",\"modes\":[";
  for (size_t i = 0; i < plan.modes.size(); ++i) {
    if (i > 0) out += ',';
    AppendJsonString(out, ModeName(plan.modes[i]));
  }
  out += "],\"params\":{";
  bool first = true;
  for (uint32_t i : order) {
    const PlannedParam& param = plan.params[i];
    if (!first) out += ',';
    first = false;
    AppendJsonString(out, plan.names[i]);
    out += ":{";
    out += layouts[param.layout].before_placement;
    AppendPlacement(out, plan, param);
    out += layouts[param.layout].after_placement;
  }
  out += "}}";
  return out;
}

std::string Fingerprint(const Plan& plan) {
  return "sha256:" + HexDigest("sha256", CanonicalPlan(plan)).value_or("");
}

}  // namespace shardc
