// Computes the sizes of mesh axes and of groups of axes. A group of axes that
// shards a dimension divides the dimension into as many parts as the product of
// the axes' sizes. An axis that the mesh lacks counts as size 1. For example,
// the mesh dp=2 fsdp=8 tp=4 lacks sp:
//
//   Parts([fsdp, sp]) = 8 * 1
#include "model/mesh.h"

#include <algorithm>

#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {

std::string_view AxisTypeName(AxisType type) {
  switch (type) {
    case AxisType::kAuto:
      return "auto";
    case AxisType::kExplicit:
      return "explicit";
    case AxisType::kManual:
      return "manual";
  }
  return "auto";
}

std::optional<size_t> Mesh::Find(std::string_view axis) const {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == axis) return i;
  }
  return std::nullopt;
}

std::optional<Mesh::Digit> Mesh::FindDigit(std::string_view name) const {
  if (const auto index = Find(name)) return Digit{*index, 1, axes[*index].size};
  const auto sub = ParseSubAxis(name);
  const auto index = sub ? Find(sub->axis) : std::nullopt;
  if (!index) return std::nullopt;
  const int64_t all = axes[*index].size;
  if (all % sub->size != 0 || all / sub->size % sub->before != 0) {
    return std::nullopt;
  }
  return Digit{*index, all / sub->size / sub->before, sub->size};
}

int64_t Mesh::SizeOf(std::string_view axis) const {
  if (const auto index = Find(axis)) return axes[*index].size;
  const auto digit = FindDigit(axis);
  if (digit) return digit->size;
  // In a refined mesh, an axis is the product of its factors.
  int64_t size = 1;
  for (const MeshAxis& part : axes) {
    if (part.name.size() > axis.size() && WholeAxis(part.name) == axis) {
      size *= part.size;
    }
  }
  return size;
}

std::optional<int64_t> Mesh::Parts(const AxisGroup& group) const {
  int64_t parts = 1;
  for (const std::string& axis : group) {
    auto next = CheckedMul(parts, SizeOf(axis));
    if (!next) return std::nullopt;
    parts = *next;
  }
  return parts;
}

std::string MeshText(const Mesh& mesh) {
  std::string out;
  for (const MeshAxis& axis : mesh.axes) {
    AppendItem(out, " ", axis.name + "=" + std::to_string(axis.size));
  }
  return out;
}

void WriteMeshMembers(JsonWriter& json, const Mesh& mesh, MeshDetail detail) {
  const bool all = detail == MeshDetail::kAll;
  json.Records("axes", mesh.axes, [&](const MeshAxis& axis) {
    json.Members("name", axis.name, "size", axis.size);
    if (all) json.Member("type", AxisTypeName(axis.type));
  });
  const bool dcn = all && !mesh.dcn.empty();
  const bool sorted = json.style() == JsonStyle::kCanonical;
  if (dcn && sorted) json.Member("dcn", mesh.dcn);
  json.Member("devices", mesh.devices);
  if (mesh.processes != 1) json.Member("processes", mesh.processes);
  if (all && mesh.slices != 1) json.Member("slices", mesh.slices);
  if (dcn && !sorted) json.Member("dcn", mesh.dcn);
}

void WriteMesh(JsonWriter& json, const Mesh& mesh, MeshDetail detail) {
  json.BeginObject();
  WriteMeshMembers(json, mesh, detail);
  json.EndObject();
}

namespace {

void WriteAxes(JsonWriter& json, const AxisGroup& group) {
  if (group.empty()) {
    json.Null();
  } else if (group.size() == 1) {
    json.String(group[0]);
  } else {
    json.Array(group);
  }
}

}  // namespace

void WriteGroup(JsonWriter& json, const AxisGroup& group) {
  // Nearly all groups have no sub-axis, and plans write very many groups.
  if (HasSubAxis(group)) {
    WriteAxes(json, JoinedGroup(group));
  } else {
    WriteAxes(json, group);
  }
}

void WriteSpec(JsonWriter& json, const Spec& spec) {
  json.BeginArray();
  for (const AxisGroup& group : spec) WriteGroup(json, group);
  json.EndArray();
}

AxisGroup AxesAt(const Spec& spec, size_t dim) {
  return dim < spec.size() ? spec[dim] : AxisGroup{};
}

std::string GroupText(const AxisGroup& group) {
  return JsonText([&](JsonWriter& json) { WriteGroup(json, group); });
}

std::string SpecText(const Spec& spec) {
  return JsonText([&](JsonWriter& json) { WriteSpec(json, spec); });
}

bool IsReplicated(const Spec& spec) {
  return std::all_of(spec.begin(), spec.end(),
                     [](const AxisGroup& group) { return group.empty(); });
}

}  // namespace shardc
