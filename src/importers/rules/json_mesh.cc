#include "importers/rules/json_mesh.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "importers/rules/exact.h"

namespace shardc::imports {
namespace {

// Reads `dcn`, the list of the number of slices (pods) along each axis.
bool ReadDcn(JsonValue value, Mesh& mesh, Findings& findings) {
  std::vector<int64_t> dcn;
  int64_t slices = 1;
  if (value.IsArray() && value.size() == mesh.axes.size()) {
    for (const JsonValue factor : value.items()) {
      const int64_t count =
          factor.kind() == JsonKind::kInteger ? factor.integer() : 0;
      if (count < 1 || mesh.axes[dcn.size()].size % count != 0) break;
      dcn.push_back(count);
      slices *= count;
    }
  }
  if (dcn.size() != mesh.axes.size()) {
    findings.Add(code::kSchema, value.place(),
                 "`dcn` has a factor of each axis, which divides its size");
    return false;
  }
  if (slices == 1) return true;
  mesh.slices = slices;
  mesh.dcn = std::move(dcn);
  return true;
}

}  // namespace

std::optional<Mesh> JsonMesh(JsonValue value, Findings& findings) {
  const auto axes = value.Find("axes");
  Mesh mesh;
  if (axes && axes->IsArray()) {
    for (const JsonValue axis : axes->items()) {
      const auto name = axis.Find("name");
      const auto size = axis.Find("size");
      if (!name || !size || !name->IsString() ||
          size->kind() != JsonKind::kInteger) {
        findings.Add(code::kSchema, axis.place(),
                     "a mesh axis has a `name` and a `size`");
        return std::nullopt;
      }
      if (!AddAxis(name->string(), size->integer(), axis.place(), mesh,
                   findings)) {
        return std::nullopt;
      }
    }
  }
  const auto dcn = value.Find("dcn");
  if (dcn && !ReadDcn(*dcn, mesh, findings)) return std::nullopt;
  return mesh;
}

}  // namespace shardc::imports
