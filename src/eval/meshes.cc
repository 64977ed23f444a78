// Implements the functions of `shardc eval` about meshes. Some create a mesh
// from sizes or from a string. Others return the part of a mesh that one
// process holds, return the ranks of a process, or check whether a mesh has
// given axes. For example, -1 stands for the size that makes the mesh fill all
// devices:
//
//   create_mesh {"axis_dims": [2, -1], "axis_names": ["dp", "tp"],
//                "device_count": 8}
//     ->  {"axis_names": ["dp", "tp"], "shape": [2, 4],
//          "device_ids": [0, 1, 2, 3, 4, 5, 6, 7]}
#include <algorithm>
#include <iterator>

#include "eval/call.h"
#include "model/axis_rules.h"
#include "model/mesh_layout.h"
#include "parse/mesh.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::eval {
namespace {

using Names = std::vector<std::string>;

void WriteMeshResult(const Mesh& mesh, Reply& reply) {
  Names names;
  Shape shape;
  for (const MeshAxis& axis : mesh.axes) {
    names.push_back(axis.name);
    shape.push_back(axis.size);
  }
  JsonWriter& json = reply.json();
  json.Members("axis_names", names, "shape", shape);
  if (mesh.devices <= 16) {
    json.Key("device_ids");
    Shape ids;
    for (int64_t at = 0; at < mesh.devices; ++at) {
      ids.push_back(PlaceOf(mesh, at).device);
    }
    json.Array(ids);
  }
}

bool PutMesh(Call& call, Reply& reply, const std::string& text,
             int64_t devices) {
  const auto mesh =
      ParseMeshString(MakeSource("mesh", text), devices, call.findings());
  if (mesh) WriteMeshResult(*mesh, reply);
  return mesh.has_value();
}

void FailHostShape(Call& call, int64_t processes, int64_t local) {
  call.Fail(std::to_string(processes) + " processes of " +
            std::to_string(local) +
            " devices cannot share the mesh by its leading axes");
}

// The parts of a mesh that a slow network connects: slices or processes, and
// the number of parts along each axis, which is empty if it is to be chosen.
struct NetworkParts {
  int64_t slices = 1, processes = 1;
  Shape along;
};

// Divides a mesh among its slices or, in a single slice, among its processes,
// as eformer's create_mesh does. It first computes the shape of one part: a
// slice divides the first axis that the number of slices divides, and a process
// has the shape of calculate_host_mesh_shape. Each size of the mesh is then the
// part's size times the number of parts along the axis. If `along` is given,
// the sizes may differ from those of `mesh`. Returns false after a finding if
// the mesh cannot be divided.
bool Divide(Call& call, const NetworkParts& network, Mesh& mesh) {
  const bool sliced = network.slices > 1;
  const int64_t parts = sliced ? network.slices : network.processes;
  Shape part;
  for (const MeshAxis& axis : mesh.axes) part.push_back(axis.size);
  mesh.slices = parts;
  mesh.dcn.assign(part.size(), 1);
  if (sliced) {
    size_t first = 0;
    while (first < part.size() && part[first] % parts != 0) ++first;
    if (first == part.size()) {
      call.Fail("no axis can be divided among " + std::to_string(parts) +
                " slices");
      return false;
    }
    part[first] /= parts;
    mesh.dcn[first] = parts;
  } else {
    const int64_t local = mesh.devices / parts;
    const auto host = HostShape(part, local, parts);
    if (!host) {
      FailHostShape(call, parts, local);
      return false;
    }
    part = *host;
    for (size_t i = 0; i < part.size(); ++i) {
      mesh.dcn[i] = mesh.axes[i].size / part[i];
    }
  }
  if (!network.along.empty()) {
    mesh.dcn = network.along;
    const auto free = std::find(mesh.dcn.begin(), mesh.dcn.end(), -1);
    if (free != mesh.dcn.end()) *free = 1;
    const auto known = CheckedProduct(mesh.dcn);
    const bool positive = std::all_of(mesh.dcn.begin(), mesh.dcn.end(),
                                      [](int64_t size) { return size > 0; });
    if (positive && known && free != mesh.dcn.end() && parts % *known == 0) {
      *free = parts / *known;
    }
    if (!positive || mesh.dcn.size() != part.size() ||
        CheckedProduct(mesh.dcn) != parts) {
      call.Fail("`dcn_mesh_dims` does not divide " + std::to_string(parts) +
                    (sliced ? " slices" : " processes") + " among " +
                    Counted(std::ssize(part), "axis", "axes"),
                "give each axis a number of parts, so that their product is " +
                    std::to_string(parts) + "; one of them may be -1");
      return false;
    }
  }
  for (size_t i = 0; i < part.size(); ++i) {
    mesh.axes[i].size = part[i] * mesh.dcn[i];
  }
  return true;
}

std::string Named(const Names& names, const std::vector<std::string>& sizes) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    AppendItem(text, ",", names[i] + ":" + sizes[i]);
  }
  return text;
}

// Creates a mesh from axis_dims and axis_names. If one of them is absent, the
// default of the system that `implementation` names is used.
bool CreateMesh(Call& call, Reply& reply) {
  const std::string system = call.TextOr("implementation", "eformer");
  const bool old = system == "fjformer";
  Names names = old ? Names{"dp", "fsdp", "tp", "sp"}
                    : Names{"dp", "fsdp", "ep", "tp", "sp"};
  Shape sizes = old ? Shape{1, -1, 1, 1} : Shape{1, -1, 1, 1, 1};
  if (call.Has("axis_names")) names = call.Names("axis_names");
  if (call.Has("axis_dims")) sizes = call.Integers("axis_dims");
  const int64_t devices = call.Integer("device_count");
  NetworkParts network;
  if (!old) {
    network.slices = call.IntegerOr("num_slices", 1);
    network.processes = call.IntegerOr("process_count", 1);
    if (call.Has("dcn_mesh_dims")) {
      network.along = call.Integers("dcn_mesh_dims");
    }
    if (network.slices < 1 || network.processes < 1) {
      call.Fail("counts of slices and processes are at least 1");
    }
  }
  if (names.size() != sizes.size()) {
    call.Fail("there are " + std::to_string(sizes.size()) + " sizes for " +
                  std::to_string(names.size()) + " axis names",
              "give one size for each name");
  }
  if (!call.Finish()) return false;
  std::vector<std::string> texts;
  for (int64_t size : sizes) texts.push_back(std::to_string(size));
  auto mesh = ParseMeshString(MakeSource("mesh", Named(names, texts)), devices,
                              call.findings());
  if (!mesh) return false;
  if ((network.slices > 1 || network.processes > 1) &&
      !Divide(call, network, *mesh)) {
    return false;
  }
  WriteMeshResult(*mesh, reply);
  return true;
}

// Creates a mesh from a text: `dp:2,tp:4`, in which every name must occur, or
// `2,4`, which has one size for each name, in the order of the names.
bool MeshFromString(Call& call, Reply& reply) {
  std::string text = call.Text("text");
  const Names names = call.Names("names");
  const int64_t devices = call.Integer("device_count");
  if (!call.Finish()) return false;
  if (text.starts_with('!')) text.erase(0, 1);
  Names parts = {""};
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (text.find(':') == std::string::npos) {
    if (parts.size() != names.size()) {
      call.Fail("there are " + std::to_string(parts.size()) + " sizes for " +
                std::to_string(names.size()) + " names");
      return false;
    }
    return PutMesh(call, reply, Named(names, parts), devices);
  }
  std::set<std::string> used;
  for (const std::string& part : parts) {
    const std::string name = part.substr(0, part.find(':'));
    if (!IsAmong(name, names)) {
      call.Fail("axis `" + name + "` is not among the names");
      return false;
    }
    used.insert(name);
  }
  if (used.size() != std::set(names.begin(), names.end()).size()) {
    call.Fail("not every name has a size");
    return false;
  }
  return PutMesh(call, reply, text, devices);
}

bool HostMesh(Call& call, Reply& reply) {
  const Shape global = call.Integers("global_mesh_shape");
  const int64_t local = call.Integer("local_devices");
  const int64_t processes = call.Integer("num_processes");
  if (!call.Finish()) return false;
  const auto shape = HostShape(global, local, processes);
  if (!shape) {
    FailHostShape(call, processes, local);
    return false;
  }
  reply.json().Key("shape");
  reply.json().Array(*shape);
  return true;
}

bool RanksAndSize(Call& call, Reply& reply) {
  const Mesh mesh = call.MeshOf("mesh");
  const int64_t local = call.Integer("local_device_count");
  const int64_t processes = call.Integer("process_count");
  const int64_t process = call.Integer("process_index");
  if (local <= 0 || processes <= 0 || process < 0) {
    call.Fail("counts of devices and processes are at least 1");
  }
  if (!call.Finish()) return false;
  const NodeRanks ranks =
      RanksOf(mesh.SizeOf("tp"), mesh.SizeOf("sp"), local, processes, process);
  reply.json().Member("mp_node_size", ranks.mp_nodes);
  reply.json().Member("dp_node_size", ranks.dp_nodes);
  reply.json().Member("dp_node_rank", ranks.dp_rank);
  reply.json().Member("mp_node_rank", ranks.mp_rank);
  return true;
}

bool NamesInMesh(Call& call, Reply& reply) {
  const Mesh mesh = call.MeshOf("mesh");
  const Names names = call.Names("names");
  if (!call.Finish()) return false;
  reply.json().Member(
      "result",
      std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        return mesh.Find(name).has_value();
      }));
  return true;
}

constexpr Function kOfMeshes[] = {
    {"calculate_host_mesh_shape",
     "the part of a mesh that one process holds: global_mesh_shape, "
     "local_devices, num_processes",
     HostMesh},
    {"create_mesh",
     "a mesh of sizes: axis_dims, axis_names, device_count, implementation, "
     "and of eformer process_count, num_slices, dcn_mesh_dims",
     CreateMesh},
    {"get_ranks_and_size",
     "a process's ranks: mesh, local_device_count, process_count, "
     "process_index",
     RanksAndSize},
    {"names_in_mesh", "whether a mesh has all the axes: mesh, names",
     NamesInMesh},
    {"parse_mesh_from_string", "a mesh of a string: text, names, device_count",
     MeshFromString},
};

}  // namespace

std::span<const Function> MeshFunctions() { return kOfMeshes; }

}  // namespace shardc::eval
