// Finds a mesh in which several specs have complete axes. For each axis the
// sub-axes of all specs give the places at which it is divided; these must form
// a chain in which each divides the next. For example, tp:16 with the sub-axes
// `tp:(1)8` and `tp:(1)4`:
//
//   places 4 and 8 of 16  ->  factors tp:(1)4, tp:(4)2 and tp:(8)2.
//
// The last factor's name ends with a dot, so that names of factors that follow
// each other can be joined without the mesh.
#include "model/sub_axis.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace shardc {
namespace {

// Takes a number from the front of a text. Returns nullopt if it has none above
// 0.
std::optional<int64_t> TakeNumber(std::string_view& text) {
  int64_t out = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || out < 1) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return out;
}

// The products of the leading factors of an axis: 1, 8 and 16 for 16 = 8 * 2.
using Cuts = std::set<int64_t>;

bool AreFactors(const Cuts& cuts) {
  int64_t before = 1;
  for (const int64_t cut : cuts) {
    if (cut % before != 0) return false;
    before = cut;
  }
  return true;
}

}  // namespace

std::optional<SubAxis> ParseSubAxis(std::string_view name) {
  const size_t colon = name.find(":(");
  if (colon == std::string_view::npos) return std::nullopt;
  SubAxis out{.axis = name.substr(0, colon)};
  std::string_view rest = name.substr(colon + 2);
  const auto before = TakeNumber(rest);
  if (!before || !rest.starts_with(')')) return std::nullopt;
  rest.remove_prefix(1);
  const auto size = TakeNumber(rest);
  if (!size || (!rest.empty() && rest != ".")) return std::nullopt;
  out.before = *before;
  out.size = *size;
  out.last = !rest.empty();
  return out;
}

std::string SubAxisName(std::string_view axis, int64_t before, int64_t size) {
  return std::string(axis) + ":(" + std::to_string(before) + ")" +
         std::to_string(size);
}

std::string_view WholeAxis(std::string_view name) {
  const auto sub = ParseSubAxis(name);
  return sub ? sub->axis : name;
}

bool HasSubAxis(const AxisGroup& group) {
  return std::any_of(group.begin(), group.end(), [](const std::string& axis) {
    return ParseSubAxis(axis).has_value();
  });
}

bool HasSubAxis(const Spec& spec) {
  return std::any_of(spec.begin(), spec.end(),
                     [](const AxisGroup& group) { return HasSubAxis(group); });
}

std::optional<Mesh> RefinedMesh(const Mesh& mesh, std::span<const Spec> specs) {
  std::map<std::string, Cuts, std::less<>> cuts;
  for (const Spec& spec : specs) {
    for (const AxisGroup& group : spec) {
      for (const std::string& axis : group) {
        const auto sub = ParseSubAxis(axis);
        if (!sub) continue;
        Cuts& of = cuts[std::string(sub->axis)];
        of.insert(
            {1, mesh.SizeOf(sub->axis), sub->before, sub->before * sub->size});
      }
    }
  }
  if (cuts.empty()) return mesh;
  Mesh out = mesh;
  out.axes.clear();
  out.dcn.clear();
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    int64_t slices = mesh.dcn.empty() ? 1 : mesh.dcn[i];
    const auto found = cuts.find(axis.name);
    const Cuts of = found == cuts.end() ? Cuts{1, axis.size} : found->second;
    if (!AreFactors(of) || *of.rbegin() != axis.size) return std::nullopt;
    if (of.size() <= 2) {
      out.axes.push_back(axis);
      if (!mesh.dcn.empty()) out.dcn.push_back(slices);
      continue;
    }
    int64_t before = 1;
    for (const int64_t cut : of) {
      if (cut == before) continue;
      const int64_t size = cut / before;
      MeshAxis part = axis;
      part.name = SubAxisName(axis.name, before, size);
      if (cut == axis.size) part.name += '.';
      part.size = size;
      out.axes.push_back(std::move(part));
      // The slices divide the most significant factors.
      const int64_t own = std::min(slices, size);
      if (slices % own != 0 || size % own != 0) return std::nullopt;
      slices /= own;
      if (!mesh.dcn.empty()) out.dcn.push_back(own);
      before = cut;
    }
  }
  return out;
}

bool IsRefined(const Mesh& mesh) {
  return std::any_of(
      mesh.axes.begin(), mesh.axes.end(),
      [](const MeshAxis& axis) { return ParseSubAxis(axis.name).has_value(); });
}

AxisGroup RefinedGroup(const Mesh& refined, const AxisGroup& group) {
  AxisGroup out;
  for (const std::string& name : group) {
    if (refined.Find(name)) {
      out.push_back(name);
      continue;
    }
    const auto sub = ParseSubAxis(name);
    const size_t before = out.size();
    for (const MeshAxis& axis : refined.axes) {
      const auto part = ParseSubAxis(axis.name);
      if (!part || part->axis != WholeAxis(name)) continue;
      if (sub && (part->before < sub->before ||
                  part->before >= sub->before * sub->size)) {
        continue;
      }
      out.push_back(axis.name);
    }
    if (out.size() == before) out.push_back(name);
  }
  return out;
}

Spec RefinedSpec(const Mesh& refined, const Spec& spec) {
  Spec out;
  for (const AxisGroup& group : spec) {
    out.push_back(RefinedGroup(refined, group));
  }
  return out;
}

AxisGroup JoinedGroup(const AxisGroup& group) {
  if (!HasSubAxis(group)) return group;
  AxisGroup out;
  std::optional<SubAxis> open;  // the sub-axis that `out` ends with
  for (const std::string& name : group) {
    const auto sub = ParseSubAxis(name);
    const bool joins = sub && open && open->axis == sub->axis &&
                       open->before * open->size == sub->before;
    if (joins) {
      open->size *= sub->size;
      open->last = sub->last;
    } else {
      open = sub;
      out.push_back(name);
    }
    if (!open) continue;
    out.back() = open->before == 1 && open->last
                     ? std::string(open->axis)
                     : SubAxisName(open->axis, open->before, open->size);
  }
  return out;
}

Mesh JoinedMesh(const Mesh& refined) {
  Mesh out = refined;
  out.axes.clear();
  out.dcn.clear();
  for (size_t i = 0; i < refined.axes.size(); ++i) {
    const MeshAxis& axis = refined.axes[i];
    const std::string name(WholeAxis(axis.name));
    if (out.axes.empty() || out.axes.back().name != name) {
      out.axes.push_back(axis);
      out.axes.back().name = name;
      if (!refined.dcn.empty()) out.dcn.push_back(refined.dcn[i]);
      continue;
    }
    out.axes.back().size *= axis.size;
    if (!refined.dcn.empty()) out.dcn.back() *= refined.dcn[i];
  }
  return out;
}

std::optional<AxisGroup> KvHeadAxes(const Mesh& mesh, const AxisGroup& axes,
                                    int64_t heads) {
  const auto parts = mesh.Parts(axes);
  if (!parts || heads < 1) return std::nullopt;
  if (heads % *parts == 0) return axes;
  if (*parts % heads != 0) return std::nullopt;
  AxisGroup out;
  int64_t left = heads;
  for (const std::string& axis : axes) {
    if (left == 1) break;
    const int64_t size = mesh.SizeOf(axis);
    if (left % size == 0) {
      out.push_back(axis);
      left /= size;
    } else if (size % left == 0) {
      out.push_back(SubAxisName(axis, 1, left));
      left = 1;
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace shardc
