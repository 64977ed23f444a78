// Writes a Python module for JAX: the mesh, a PartitionSpec for each parameter
// and mode, and functions that make NamedShardings from them. The module begins
// with the data. The code after the data is the same in every module, except
// for a mesh of several slices. A part of this code, which finds the parameter
// of each array in a tree, is copied from python/shardc/arrays.py. For example:
//
//   MODES = {"decode": {"w": P(None, "tp")}}  ->  specs("decode")["w"]
#include "emit/exports/exporter.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

constexpr std::string_view kImports = R"(import jax
import numpy
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

)";

constexpr std::string_view kDevices = R"(

def mesh(devices=None):
    """The mesh. Device n of the plan is the n-th of `devices`, or of all
    devices by their ids."""
    count = math.prod(AXES.values())
    if devices is None:
        devices = sorted(jax.devices(), key=lambda device: device.id)
    devices = list(devices)[:count]
    if len(devices) < count:
        raise ValueError(f"{count} devices are needed, {len(devices)} given")
)";

constexpr std::string_view kMeshOfOneSlice =
    R"(    grid = numpy.array(devices, dtype=object).reshape(tuple(AXES.values()))
)";

// Python code that arranges the devices of several slices in the mesh. All
// devices of a slice are numbered before the devices of the next slice, and the
// slices are the outer part of each axis.
constexpr std::string_view kMeshOfSlices =
    R"(    slices, rank = tuple(DCN.values()), len(AXES)
    inner = tuple(size // DCN[axis] for axis, size in AXES.items())
    grid = numpy.array(devices, dtype=object).reshape(slices + inner)
    grid = grid.transpose([i + part for i in range(rank) for part in (0, rank)])
    grid = grid.reshape(tuple(AXES.values()))
)";

constexpr std::string_view kMesh =
    R"(    return Mesh(grid, tuple(AXES),
                axis_types=tuple(AxisType[t] for t in AXIS_TYPES))
)";

constexpr std::string_view kFunctions = R"(

def specs(mode="train"):
    """{name: PartitionSpec} of one mode."""
    if mode != "train" and mode not in MODES:
        raise KeyError(f"the plan has no mode {mode!r}")
    return {**SPECS, **MODES.get(mode, {})}


def constrain(x, name, mode="train", on=None):
    """Inside jit: `x` with the sharding of an activation, such as "hidden"."""
    on = _mesh(on)
    sharding = NamedSharding(on, ACTIVATIONS[mode][name])
    if AxisType.Explicit in on.axis_types:
        return jax.sharding.reshard(x, sharding)
    return jax.lax.with_sharding_constraint(x, sharding)


def tree(mode="train"):
    """The same as nested dicts, split at the names' separator."""
    return nested(specs(mode), SEPARATOR, "use specs() instead")


def shardings(mode="train", on=None, like=None, unmatched="error"):
    """{name: NamedSharding} over the mesh `on`, by default `mesh()`; in the shape
    of `like`'s tree if it is given, with None where that has no array."""
    if like is None:
        on = _mesh(on)
        return {name: NamedSharding(on, spec)
                for name, spec in specs(mode).items()}
    return _mapped(like, mode, on, unmatched, lambda arrays, made: made,
                   lambda leaf: None)


def name_of(path):
    """A leaf's name by its path in a tree, as jax.tree_util gives it."""
    parts = [key_text(key) for key in path]
    name = _arrays().name_at(parts)
    if name is None:
        raise KeyError(f"the plan has no parameter {SEPARATOR.join(parts)!r}")
    return name


def shard(params, mode="train", on=None, unmatched="error"):
    """Places a tree of arrays on devices; ShapeDtypeStructs get their shardings.
    The tree may be a whole train state: moments are sharded as their
    parameters, scalars, random keys and other state are replicated."""
    return _mapped(params, mode, on, unmatched, put, lambda leaf: leaf)


@functools.lru_cache(maxsize=None)
def _arrays():
    return Arrays(SHAPES, SEPARATOR)


def _mesh(on):
    if on is None:
        return mesh()
    check_mesh(on, AXES)
    return on


def _mapped(tree, mode, on, unmatched, use, other):
    on = _mesh(on)
    known = specs(mode)

    def sharding(owner):
        spec = owner.spec(known[owner.name]) if owner else ()
        return NamedSharding(on, P(*spec))

    return map_arrays(_arrays(), tree, sharding, use, other, unmatched)
)";

// The two parts of the shared Python source (python/shardc/arrays.py): its
// imports, and the code after the line that begins with `# Copied into`.
struct Shared {
  std::string_view imports;
  std::string_view code;
};

Shared SharedSource() {
  constexpr std::string_view kMarker =
      "# Copied into exported modules from here on.\n";
  const std::string_view text = EmbeddedArrays().front().text;
  const size_t imports = text.find("\nimport ") + 1;
  const size_t marker = text.find(kMarker);
  return {text.substr(imports, marker - imports),
          text.substr(marker + kMarker.size())};
}

std::string PythonShape(const std::optional<Shape>& shape) {
  if (!shape) return "None";
  std::string text = "(";
  for (const int64_t size : *shape) text += std::to_string(size) + ", ";
  if (shape->size() > 1) text.resize(text.size() - 2);
  if (shape->size() == 1) text.pop_back();
  return text + ")";
}

std::string_view TypeName(AxisType type) {
  return type == AxisType::kExplicit ? "Explicit"
         : type == AxisType::kManual ? "Manual"
                                     : "Auto";
}

void WriteMeshData(const Mesh& mesh, Sink& out) {
  out.Append("AXES = " + AxesText(mesh) + "\n");
  std::string types;
  for (const MeshAxis& axis : mesh.axes) {
    types += PythonString(TypeName(axis.type)) + ", ";
  }
  types.resize(types.size() - (mesh.axes.size() > 1 ? 2
                               : mesh.axes.empty()  ? 0
                                                    : 1));
  out.Append("AXIS_TYPES = (" + types + ")\n");
  if (mesh.slices == 1) return;
  std::string dcn;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    AppendItem(
        dcn, ", ",
        PythonString(mesh.axes[i].name) + ": " + std::to_string(mesh.dcn[i]));
  }
  out.Append("DCN = {" + dcn + "}\n");
}

void WriteSpecs(const ReadPlan& plan, Sink& out) {
  out.Append("\nSPECS = {\n");
  for (const ReadParam& param : plan.params) {
    out.Append("    " + PythonString(param.name) + ": " +
               PartitionSpecText(param.spec) + ",\n");
  }
  out.Append("}\n\nSHAPES = {\n");
  for (const ReadParam& param : plan.params) {
    out.Append("    " + PythonString(param.name) + ": " +
               PythonShape(param.type.shape) + ",\n");
  }
  out.Append(
      "}\n\n# By mode, the specs that differ from those of train.\nMODES = "
      "{\n");
  for (const Mode mode : plan.modes) {
    if (mode == Mode::kTrain) continue;
    out.Append("    " + PythonString(ModeName(mode)) + ": {\n");
    for (const ReadParam& param : plan.params) {
      const Spec& spec = param.SpecOf(mode);
      if (spec == param.spec) continue;
      out.Append("        " + PythonString(param.name) + ": " +
                 PartitionSpecText(spec) + ",\n");
    }
    out.Append("    },\n");
  }
  out.Append("}\n\n# By mode, the specs of activations.\nACTIVATIONS = {\n");
  for (const Mode mode : plan.modes) {
    if (plan.activations.empty()) break;
    out.Append("    " + PythonString(ModeName(mode)) + ": {\n");
    for (const ReadActivation& one : plan.activations) {
      if (one.mode != mode) continue;
      out.Append("        " + PythonString(one.tensor) + ": " +
                 PartitionSpecText(one.spec) + ",\n");
    }
    out.Append("    },\n");
  }
  out.Append("}\n");
}

void WriteJax(const Request& request, Sink& out, Findings& findings) {
  const ReadPlan& plan = request.plan;
  if (!NoPlacements(plan, "jax", findings) ||
      !EvenShards(plan, {"jax", kEqualParts}, findings)) {
    return;
  }
  out.Append("\"\"\"Shardings of " + std::to_string(plan.params.size()) +
             " parameters.\n\nMade by `shardc export jax` from plan\n" +
             plan.fingerprint + ".\n\"\"\"\n");
  const Shared shared = SharedSource();
  out.Append("\nimport functools\n");
  out.Append(shared.imports);
  out.Append(kImports);
  WriteMeshData(plan.mesh, out);
  out.Append("SEPARATOR = " + PythonString(std::string(1, SeparatorOf(plan))) +
             "\n");
  WriteSpecs(plan, out);
  out.Append(kDevices);
  out.Append(plan.mesh.slices == 1 ? kMeshOfOneSlice : kMeshOfSlices);
  out.Append(kMesh);
  out.Append("\n");
  out.Append(shared.code);
  out.Append(kFunctions);
}

}  // namespace

constexpr Exporter kJax{
    .name = "jax",
    .what =
        "a Python module: mesh, PartitionSpecs by name and mode, `shard`, "
        "`constrain`",
    .formats = "text",
    .flags = "",
    .write = WriteJax,
    .no_kv_replicas =
        "a NamedSharding shards a dimension over complete axes "
        "of the mesh"};

// Writes the mesh and the specs of a plan as JSON, for programs that cannot run
// the Python module that jax.cc writes.

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
    json.Member("devices", devices);
  }
  json.EndObject();
}

void WriteParamSpecs(JsonWriter& json, const ReadParam& param) {
  json.BeginObject();
  WriteTypeMembers(json, param.type);
  json.Member("partition_spec", WrittenBy(WriteSpec, param.spec));
  if (!param.modes.empty()) {
    json.Key("modes");
    json.BeginObject();
    for (const auto& [mode, spec] : param.modes) {
      json.Member(ModeName(mode), WrittenBy(WriteSpec, spec));
    }
    json.EndObject();
  }
  if (param.placement) {
    json.Member("placement", Record("axis", param.placement->axis, "coordinate",
                                    param.placement->coordinate));
  }
  json.EndObject();
}

void WriteActivations(JsonWriter& json, const ReadPlan& plan) {
  json.Key("activations");
  json.BeginObject(JsonLayout::kLines);
  for (const Mode mode : plan.modes) {
    json.Key(ModeName(mode));
    json.BeginObject();
    for (const ReadActivation& one : plan.activations) {
      if (one.mode != mode) continue;
      json.Member(one.tensor, WrittenBy(WriteSpec, one.spec));
    }
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
  json.Members("fingerprint", request.plan.fingerprint, "mesh",
               WrittenBy(WriteMeshOf, request.plan.mesh));
  json.Key("params");
  json.BeginObject(JsonLayout::kLines);
  for (const ReadParam& param : request.plan.params) {
    json.Member(param.name, WrittenBy(WriteParamSpecs, param));
  }
  json.EndObject();
  if (!request.plan.activations.empty()) WriteActivations(json, request.plan);
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kJaxJson{"jax-json", "mesh and PartitionSpecs as JSON",
                            "json", "", WriteJaxJson};

}  // namespace shardc::exports
