// Writes what a picture of a mesh does not show: its types of axes, processes
// and ranks, as text, and all of the mesh as JSON. Also writes the coordinates
// of one device.
#include "emit/plans/input_text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "emit/plans/explain.h"
#include "model/manifest.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::optional<std::vector<int64_t>> HostMesh(const Mesh& mesh) {
  if (mesh.processes < 1 || mesh.devices % mesh.processes != 0) return {};
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  return HostShape(sizes, mesh.devices / mesh.processes, mesh.processes);
}

// Returns the device numbers of a process, which are consecutive: "0-7".
std::string Range(const std::vector<int64_t>& numbers) {
  if (numbers.empty()) return "none";
  std::string out = std::to_string(numbers.front());
  if (numbers.size() > 1) out += "-" + std::to_string(numbers.back());
  return out;
}

struct Process {
  std::vector<int64_t> devices;
  int64_t slice = 0;
};

Process ProcessOf(const Mesh& mesh, int64_t process) {
  Process out;
  for (int64_t position : PositionsOfProcess(mesh, process)) {
    const DevicePlace place = PlaceOf(mesh, position);
    out.devices.push_back(place.device);
    out.slice = place.slice;
  }
  return out;
}

std::string RanksText(const Mesh& mesh, const AxisRules& axes) {
  std::string out = "\n";
  for (int64_t i = 0; i < mesh.processes; ++i) {
    const Process process = ProcessOf(mesh, i);
    const NodeRanks ranks = RanksOf(mesh, axes, i);
    out +=
        "process " + std::to_string(i) + ": devices " + Range(process.devices);
    if (mesh.slices > 1) out += ", slice " + std::to_string(process.slice);
    out += ", dp rank " + std::to_string(ranks.dp_rank) + " of " +
           std::to_string(ranks.dp_nodes);
    out += ", mp rank " + std::to_string(ranks.mp_rank) + " of " +
           std::to_string(ranks.mp_nodes) + "\n";
  }
  return out;
}

void WriteGrid(JsonWriter& json, const Mesh& mesh, size_t axis,
               std::vector<int64_t>& at) {
  if (axis == mesh.axes.size()) {
    json.Integer(PlaceOf(mesh, PositionOf(mesh, at)).device);
    return;
  }
  json.BeginArray();
  for (int64_t i = 0; i < mesh.axes[axis].size; ++i) {
    at[axis] = i;
    WriteGrid(json, mesh, axis + 1, at);
  }
  json.EndArray();
}

void WriteRanks(JsonWriter& json, const Mesh& mesh, const AxisRules& axes) {
  json.BeginArray(JsonLayout::kLines);
  for (int64_t i = 0; i < mesh.processes; ++i) {
    const Process process = ProcessOf(mesh, i);
    const NodeRanks ranks = RanksOf(mesh, axes, i);
    json.Object("process", i, "slice", process.slice, "devices",
                process.devices, "mp_node_size", ranks.mp_nodes, "dp_node_size",
                ranks.dp_nodes, "dp_node_rank", ranks.dp_rank, "mp_node_rank",
                ranks.mp_rank);
  }
  json.EndArray();
}

// Returns "device: h100-sxm, 79.65 GiB"; either part may be missing.
std::string DeviceText(const Device& device) {
  std::string out = device.profile;
  if (device.memory_bytes) {
    AppendItem(out, ", ", BytesText(*device.memory_bytes));
  }
  return out.empty() ? "" : "device: " + out + "\n";
}

void WriteDevice(JsonWriter& json, const Device& device) {
  json.Object("profile", Given(device.profile), "memory", device.memory_bytes);
}

}  // namespace

std::string MeshDetailsText(const Mesh& mesh, const AxisRules& axes,
                            bool ranks) {
  std::string out = "\n" + Counted(mesh.devices, "device") + ", " +
                    Counted(mesh.processes, "process", "processes") + ", " +
                    Counted(mesh.slices, "slice") + "\n";
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const MeshAxis& axis = mesh.axes[i];
    const bool sliced = i < mesh.dcn.size() && mesh.dcn[i] > 1;
    if (axis.type == AxisType::kAuto && !sliced) continue;
    out += Printable(axis.name) + ": " + std::string(AxisTypeName(axis.type));
    if (sliced) out += ", " + std::to_string(mesh.dcn[i]) + " over the slices";
    out += '\n';
  }
  if (mesh.device) out += DeviceText(*mesh.device);
  if (mesh.processes > 1) {
    const auto host = HostMesh(mesh);
    out +=
        "host mesh: " +
        (host ? ShapeText(*host)
              : "none, because the processes do not divide the leading axes") +
        "\n";
  }
  if (!ranks) return out;
  if (mesh.devices > kRankedDevices) {
    return out + "\nranks are listed for up to " + CountText(kRankedDevices) +
           " devices; `--device N` shows one\n";
  }
  return out + RanksText(mesh, axes);
}

std::string MeshDeviceText(const Mesh& mesh, int64_t device) {
  return Printable(MeshText(mesh)) + "\n" +
         PlaceText(mesh, PlaceOfDevice(mesh, device)) + "\n";
}

void WriteMeshDeviceJson(const Mesh& mesh, int64_t device, Sink& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Member("mesh", WrittenBy(WriteMesh, mesh, MeshDetail::kSizes));
  json.Break(1);
  json.Member("place",
              WrittenBy(WritePlace, mesh, PlaceOfDevice(mesh, device)));
  json.EndObject();
  out.Put('\n');
}

void WriteMeshGridJson(const Mesh& mesh, const AxisRules& axes, bool ranks,
                       Sink& out) {
  JsonWriter json(out);
  json.BeginObject();
  WriteMeshMembers(json, mesh);
  if (mesh.device) {
    json.Break(1);
    json.Member("device", WrittenBy(WriteDevice, *mesh.device));
  }
  json.Break(1);
  json.Member("host_mesh", HostMesh(mesh));
  json.Break(1);
  json.Key("grid");
  if (mesh.devices <= kListedDevices) {
    std::vector<int64_t> at(mesh.axes.size());
    WriteGrid(json, mesh, 0, at);
  } else {
    json.Null();
  }
  if (ranks) {
    json.Break(1);
    json.Member("ranks", mesh.devices <= kRankedDevices
                             ? std::optional(WrittenBy(WriteRanks, mesh, axes))
                             : std::nullopt);
  }
  json.EndObject();
  out.Put('\n');
}

// Writes a manifest as text or as JSON. The text is shortened: tensors of the
// same dtype and shape whose names have the same template share one line.
// This line begins with the number of these tensors, and stands where the first
// of them would stand. For example, two tensors share a line:
//
//   model.layers.0.mlp.up [8, 8], model.layers.1.mlp.up [8, 8]
//     ->  2  model.layers.*.mlp.up  [8, 8]

namespace {

std::string TypeText(const TensorType& type) {
  std::string out = type.shape ? ShapeText(*type.shape) : "shape unknown";
  if (type.dtype) out += " " + std::string(DtypeName(*type.dtype));
  return out;
}

std::optional<int64_t> Sum(const Manifest& manifest,
                           std::optional<int64_t> (TensorType::*get)() const) {
  std::optional<int64_t> sum = 0;
  for (const Tensor& tensor : manifest.tensors) {
    const auto value = (manifest.TypeOf(tensor).*get)();
    sum = sum && value ? CheckedAdd(*sum, *value) : std::nullopt;
  }
  return sum;
}

}  // namespace

std::string ManifestText(const Manifest& manifest) {
  struct Group {
    std::string name;
    uint32_t type;
    int64_t count;
  };
  std::vector<Group> groups;
  std::map<std::pair<std::string, uint32_t>, size_t> by_name;
  for (const Tensor& tensor : manifest.tensors) {
    std::string name = NameTemplate(tensor.name, manifest.separator);
    const auto [at, inserted] =
        by_name.try_emplace({name, tensor.type}, groups.size());
    if (inserted) groups.push_back({std::move(name), tensor.type, 0});
    ++groups[at->second].count;
  }
  std::string out;
  if (!manifest.model.empty()) {
    out += "model       " + Printable(manifest.model) + "\n";
  }
  out += "parameters  " +
         CountText(static_cast<int64_t>(manifest.tensors.size())) + "\n";
  const auto elements = Sum(manifest, &TensorType::Elements);
  const auto bytes = Sum(manifest, &TensorType::Bytes);
  out += "elements    " + (elements ? CountText(*elements) : "unknown") + "\n";
  out += "bytes       " + (bytes ? BytesText(*bytes) : "unknown") + "\n";
  out += "separator   ";
  out += manifest.separator == 0 ? std::string("none")
                                 : std::string(1, manifest.separator);
  out += "\n";
  for (const std::string& note : manifest.notes) {
    out += "note        " + Printable(note) + "\n";
  }
  if (!groups.empty()) out += "\n";
  for (const Group& group : groups) {
    out += PadLeft(CountText(group.count), 7) + "  " + Printable(group.name) +
           "  " + TypeText(manifest.types[group.type]) + "\n";
  }
  return out;
}

void WriteManifestJson(const Manifest& manifest, Sink& out) {
  WriteDocument(out, "shardc.manifest/v1", [&](JsonWriter& json) {
    json.Members("model", Given(manifest.model), "naming",
                 Given(manifest.naming));
    if (manifest.separator != 0) {
      json.Member("separator", std::string_view(&manifest.separator, 1));
    }
    json.Rows("params", manifest.tensors, [&](const Tensor& tensor) {
      json.Member("name", tensor.name);
      WriteTypeMembers(json, manifest.TypeOf(tensor));
    });
  });
}

}  // namespace shardc
