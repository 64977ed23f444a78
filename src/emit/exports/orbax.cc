// The `_sharding` file of an orbax checkpoint: a JSON object whose keys are
// parameter names in base64 and whose values are JSON strings. Device ids are
// left out of a mesh of one slice, so that the checkpoint restores on any
// devices of the same number; those of several slices are in their order:
//
//   {"dw": "{\"sharding_type\": \"NamedSharding\", \"shape\": [2], ...}"}
#include "emit/exports/device_order.h"
#include "emit/exports/exporter.h"
#include "emit/exports/view.h"
#include "source/json_writer.h"
#include "source/url_base64.h"

namespace shardc::exports {
namespace {

// orbax joins the parts of a path with dots, whatever the separator of the
// plan.
std::string OrbaxName(std::string name, char separator) {
  if (separator != '/') return name;
  for (char& c : name) c = c == '/' ? '.' : c;
  return name;
}

// Devices as nested lists, one level for each axis.
void WriteGrid(JsonWriter& json, const Mesh& mesh, size_t axis,
               const std::vector<int64_t>& devices, size_t& next) {
  if (axis == mesh.axes.size()) {
    json.BeginObject();
    json.Member("id", devices[next++]);
    json.EndObject();
    return;
  }
  json.BeginArray();
  for (int64_t i = 0; i < mesh.axes[axis].size; ++i) {
    WriteGrid(json, mesh, axis + 1, devices, next);
  }
  json.EndArray();
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
    if (const auto devices = DeviceOrder(mesh); !devices.empty()) {
      json.Key("device_mesh");
      json.BeginObject();
      json.Key("mesh");
      size_t next = 0;
      WriteGrid(json, mesh, 0, devices, next);
      json.EndObject();
    }
    json.EndObject();
  });
}

void WriteOrbax(const Request& request, Sink& out, Findings& findings) {
  const ReadPlan& plan = request.plan;
  if (!NoPlacements(plan, "orbax", findings)) return;
  const char separator = SeparatorOf(plan);
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  for (const ReadParam& param : plan.params) {
    json.Member(EncodeUrlBase64(OrbaxName(param.name, separator)),
                ShardingText(plan.mesh, param.SpecOf(request.options.mode)));
  }
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kOrbax{"orbax",
                          "the `_sharding` file of an orbax checkpoint", "json",
                          "--mode", WriteOrbax};

}  // namespace shardc::exports
