// Converts PyTorch's DTensor placements, one for each mesh axis, to specs. If
// several axes shard the same dimension, a spec usually lists them in the
// mesh's order. An axis with a strided placement (`_StridedShard`) is listed
// after later axes of the mesh. In this example, the mesh has the axes a:2 and
// b:4. The placement `_S(0, 4)` of `a` means that later axes have already split
// dimension 0 into 4 parts. In the spec, `a` therefore follows `b`:
//
//   ["_S(0, 4)", "S(0)"]  ->  [[b, a]]
//
// If the last of the axes of a dimension is strided too, the dimension has
// several parts, each of which all axes divide:
//
//   ["_S(0, 8)", "_S(0, 2)"]  ->  [[b, a]] in parts [2]
#include <algorithm>

#include "importers/rules/exact.h"
#include "importers/rules/importer.h"
#include "source/size.h"

namespace shardc::imports {
namespace {

struct Placed {
  int64_t dim = -1;  // sharded dimension; -1 if the value is replicated
  int64_t factor = 1;
};

bool Refuse(const Code& code, JsonValue at, std::string message,
            Findings& findings) {
  findings.Add(code, at.place(), std::move(message));
  return false;
}

// Reads a placement such as `S(0)`, `Shard(dim=0)` or `_StridedShard(dim=0,
// sf=4)`.
bool ReadPlacement(JsonValue value, Placed& placed, Findings& findings) {
  Scan scan(value.string(), value.place());
  const std::string word = scan.Word();
  if (word == "R" || word == "Replicate") return true;
  const bool strided = word == "_S" || word == "_StridedShard";
  if (word == "P" || word == "Partial" || word == "_MaskPartial") {
    return Refuse(code::kInexpressible, value,
                  "a plan holds no sums that are still to be made", findings);
  }
  if ((word != "S" && word != "Shard" && !strided) || !scan.Take("(")) {
    return Refuse(code::kForeignSyntax, value, "this is no placement",
                  findings);
  }
  scan.Take("dim=");
  const auto dim = scan.Number();
  std::optional<int64_t> factor = 1;
  if (dim && strided && scan.Take(",")) {
    if (!scan.Take("split_factor=")) scan.Take("sf=");
    factor = scan.Number();
  }
  if (!dim || *dim > 1000 || !factor || *factor < 1 || !scan.Take(")")) {
    return Refuse(code::kForeignSyntax, value, "this is no placement",
                  findings);
  }
  placed = {*dim, *factor};
  return true;
}

// Inserts a mesh axis into the list of axes that shard its dimension. The
// caller inserts the mesh's last axis first, so the list already has the axes
// that come later in the mesh. For `Shard`, the axis is inserted at the front.
// For `_StridedShard(dim=0, sf=4)`, it is inserted after the first axes of the
// list whose sizes multiply to 4. The factor of the first axis that is inserted
// is the number of parts of the dimension. Returns false if the list has no
// such axes.
bool Insert(const Mesh& mesh, size_t axis, const Placed& placed,
            NamedSpec& param) {
  const auto dim = AsIndex(placed.dim);
  if (param.spec.size() <= dim) param.spec.resize(dim + 1);
  AxisGroup& group = param.spec[dim];
  if (group.empty() && placed.factor > 1) {
    param.parts.resize(std::max(param.parts.size(), dim + 1), 1);
    param.parts[dim] = placed.factor;
  }
  int64_t parts = PartsAt(param.parts, dim);
  size_t at = 0;
  while (parts != placed.factor) {
    if (at == group.size()) return false;
    parts *= mesh.SizeOf(group[at++]);
  }
  group.insert(group.begin() + static_cast<std::ptrdiff_t>(at),
               mesh.axes[axis].name);
  return true;
}

bool ReadParam(const JsonMember& member, const Mesh& mesh, NamedSpec& param,
               Findings& findings) {
  param.name = std::string(member.name());
  param.place = member.key.place();
  if (!member.value.IsArray() || member.value.size() != mesh.axes.size()) {
    return Refuse(code::kSchema, member.value,
                  "there is one placement for each axis of the mesh", findings);
  }
  std::vector<JsonValue> values;
  for (const JsonValue value : member.value.items()) values.push_back(value);
  for (size_t i = values.size(); i > 0;) {
    --i;
    Placed placed;
    if (!values[i].IsString()) {
      return Refuse(code::kSchema, values[i], "a placement is a text",
                    findings);
    }
    if (!ReadPlacement(values[i], placed, findings)) return false;
    if (placed.dim >= 0 && !Insert(mesh, i, placed, param)) {
      return Refuse(code::kInexpressible, values[i],
                    "no later axes split the dimension into so many blocks",
                    findings);
    }
  }
  return true;
}

// Reads the device numbers, which are in the row-major order of the mesh.
bool ReadDevices(JsonValue value, Mesh& mesh, Findings& findings) {
  std::vector<int64_t> devices;
  if (value.IsArray()) {
    for (const JsonValue device : value.items()) {
      if (device.kind() != JsonKind::kInteger) break;
      devices.push_back(device.integer());
    }
  }
  if (!value.IsArray() || devices.size() != value.size()) {
    return Refuse(code::kSchema, value, "`devices` is a list of numbers",
                  findings);
  }
  return AddDeviceOrder(devices, "devices", value.place(), mesh, findings);
}

std::optional<Mesh> ReadMesh(JsonValue root, Findings& findings) {
  const auto value = root.Find("mesh");
  const auto names = value ? value->Find("mesh_dim_names") : value;
  const auto shape = value ? value->Find("shape") : value;
  if (!names || !names->IsArray() || !shape || !shape->IsArray() ||
      names->size() != shape->size()) {
    Refuse(code::kSchema, value.value_or(root),
           "`mesh` has `mesh_dim_names` and a `shape` of as many sizes",
           findings);
    return std::nullopt;
  }
  Mesh mesh;
  std::vector<int64_t> sizes;
  for (const JsonValue size : shape->items()) {
    sizes.push_back(size.kind() == JsonKind::kInteger ? size.integer() : 0);
  }
  for (const JsonValue name : names->items()) {
    if (!AddAxis(name.IsString() ? name.string() : "", sizes[mesh.axes.size()],
                 name.place(), mesh, findings)) {
      return std::nullopt;
    }
  }
  const auto devices = value->Find("devices");
  if (devices && !ReadDevices(*devices, mesh, findings)) return std::nullopt;
  return mesh;
}

std::optional<Imported> ReadDtensor(const Request& request,
                                    Findings& findings) {
  const auto document = JsonDocument::Parse(request.source, findings);
  if (!document) return std::nullopt;
  Imported imported;
  imported.mesh = ReadMesh(document->root(), findings);
  if (!imported.mesh) return std::nullopt;
  const auto params = document->root().Find("params");
  if (!params || !params->IsObject()) {
    Refuse(code::kSchema, document->root(), "this holds no `params`", findings);
    return std::nullopt;
  }
  std::vector<NamedSpec> read;
  for (const JsonMember member : params->members()) {
    if (!ReadParam(member, *imported.mesh, read.emplace_back(), findings)) {
      return std::nullopt;
    }
  }
  if (!AddExact(read, imported, findings)) return std::nullopt;
  return imported;
}

}  // namespace

constexpr Importer kDtensor{
    "dtensor",
    "PyTorch's placements as `export dtensor --format json` has them", "",
    ReadDtensor};

}  // namespace shardc::imports
