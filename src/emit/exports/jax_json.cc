// Writes the mesh and the specs of a plan as JSON, for programs that cannot run
// the Python module that jax.cc writes.
#include "emit/exports/exporter.h"
#include "emit/exports/view.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"

namespace shardc::exports {
namespace {

void WriteMeshOf(JsonWriter& json, const Mesh& mesh) {
  json.BeginObject();
  json.Key("axis_names");
  json.Array(mesh.axes, &MeshAxis::name);
  json.Key("shape");
  json.BeginObject();
  for (const MeshAxis& axis : mesh.axes) json.Member(axis.name, axis.size);
  json.EndObject();
  json.Key("axis_types");
  json.Array(mesh.axes,
             [](const MeshAxis& axis) { return AxisTypeName(axis.type); });
  if (const auto devices = DeviceOrder(mesh); !devices.empty()) {
    json.Key("devices");
    json.Array(devices);
  }
  json.EndObject();
}

void WriteParam(JsonWriter& json, const ReadParam& param) {
  json.BeginObject();
  WriteTypeMembers(json, param.type);
  json.Key("partition_spec");
  WriteSpec(json, param.spec);
  if (!param.modes.empty()) {
    json.Key("modes");
    json.BeginObject();
    for (const auto& [mode, spec] : param.modes) {
      json.Key(ModeName(mode));
      WriteSpec(json, spec);
    }
    json.EndObject();
  }
  if (param.placement) {
    json.Key("placement");
    json.BeginObject();
    json.Member("axis", param.placement->axis);
    json.Member("coordinate", param.placement->coordinate);
    json.EndObject();
  }
  json.EndObject();
}

void WriteJaxJson(const Request& request, Sink& out, Findings& findings) {
  if (!CanListDevices(request.plan.mesh, "jax-json", findings) ||
      !EvenShards(request.plan, {"jax-json", kEqualParts}, findings)) {
    return;
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("fingerprint", request.plan.fingerprint);
  json.Key("mesh");
  WriteMeshOf(json, request.plan.mesh);
  json.Key("params");
  json.BeginObject(JsonLayout::kLines);
  for (const ReadParam& param : request.plan.params) {
    json.Key(param.name);
    WriteParam(json, param);
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kJaxJson{"jax-json", "mesh and PartitionSpecs as JSON",
                            "json", "", WriteJaxJson};

}  // namespace shardc::exports
