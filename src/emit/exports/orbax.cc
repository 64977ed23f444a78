// Exports the `_sharding` file of an orbax checkpoint. The file is a JSON
// object. Its keys are names of arrays in base64, and its values are JSON
// strings. If orbax restores a checkpoint without a target, each array of the
// checkpoint must have an entry. A checkpoint of a train state also has arrays
// of the optimizer. The option `--state` names these arrays, and the file then
// has entries for all of them. For example, an entry for the parameter `w` is:
//
//   {"dw==": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2], ...}"}
#include <map>

#include "emit/exports/exporter.h"
#include "emit/exports/state_arrays.h"
#include "emit/exports/view.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/url_base64.h"

namespace shardc::exports {
namespace {

// Returns a parameter's name in orbax, which joins the parts of a path with
// dots even if the plan's separator is a slash.
std::string OrbaxName(std::string name, char separator) {
  if (separator != '/') return name;
  for (char& c : name) c = c == '/' ? '.' : c;
  return name;
}

// Returns the device numbers in the order of the mesh. Returns an empty list
// for more than kMostListed devices. Such a mesh has only one slice
// (CanListDevices), so orbax's default, the order of the device ids, is right.
std::vector<int64_t> Devices(const Mesh& mesh) {
  std::vector<int64_t> devices;
  if (mesh.devices > kMostListed) return devices;
  devices = DeviceOrder(mesh);
  if (!devices.empty()) return devices;
  for (int64_t n = 0; n < mesh.devices; ++n) devices.push_back(n);
  return devices;
}

std::string ShardingText(const Mesh& mesh, const Spec& spec) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("sharding_type", "NamedSharding");
    json.Key("shape");
    json.Array(mesh.axes, &MeshAxis::size);
    json.Key("axis_names");
    json.Array(mesh.axes, &MeshAxis::name);
    json.Key("axis_types");
    json.Array(mesh.axes, [](const MeshAxis& axis) {
      return axis.type == AxisType::kExplicit ? "AxisType.Explicit"
             : axis.type == AxisType::kManual ? "AxisType.Manual"
                                              : "AxisType.Auto";
    });
    json.Key("partition_spec");
    WriteSpec(json, spec);
    const std::vector<int64_t> devices = Devices(mesh);
    if (!mesh.axes.empty() && !devices.empty()) {
      json.Key("device_mesh");
      json.BeginObject();
      json.Key("mesh");
      WriteDeviceGrid(json, mesh, devices);
      json.EndObject();
    }
    json.EndObject();
  });
}

void WriteOrbax(const Request& request, Sink& out, Findings& findings) {
  const ReadPlan& plan = request.plan;
  if (!NoPlacements(plan, "orbax", findings) ||
      !CanListDevices(plan.mesh, "orbax", findings) ||
      !EvenShards(plan, {"orbax", kEqualParts, request.options.mode},
                  findings)) {
    return;
  }
  const Mode mode = request.options.mode;
  std::vector<StateArray> arrays;
  char separator = SeparatorOf(plan);
  if (request.state != nullptr) {
    arrays = ArraysOfState(plan, mode, *request.state, findings);
    if (request.state->separator != 0) separator = request.state->separator;
  } else {
    for (const ReadParam& param : plan.params) {
      arrays.push_back({param.name, param.SpecOf(mode)});
    }
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  std::map<Spec, std::string> texts;  // the JSON text of each distinct spec
  for (const StateArray& array : arrays) {
    const auto [text, fresh] = texts.try_emplace(array.spec);
    if (fresh) text->second = ShardingText(plan.mesh, array.spec);
    json.Member(EncodeUrlBase64(OrbaxName(array.name, separator)),
                text->second);
  }
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kOrbax{"orbax",
                          "the `_sharding` file of an orbax checkpoint", "json",
                          "--mode --state", WriteOrbax};

}  // namespace shardc::exports
