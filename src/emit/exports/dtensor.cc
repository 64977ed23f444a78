// Exports a plan as PyTorch DTensor placements, one per mesh axis. DTensor
// applies placements in the order of the mesh's axes. In a spec, however, the
// major axis of a dimension may come later in the mesh than the minor axis.
// DTensor then applies the minor axis first, so the minor axis must divide each
// block of the major axis. Such a placement is a `_StridedShard` whose split
// factor is the number of these blocks. For example:
//
//   mesh dp:2, tp:4 and spec [["tp", "dp"]], in which tp is the major axis
//     ->  dp: _StridedShard(0, split_factor=4), tp: Shard(0)
//
// If a dimension has several parts, each axis must also divide each part:
//
//   mesh tp:2 and spec ["tp"] in parts [2]
//     ->  tp: _StridedShard(0, split_factor=2)

#include "emit/exports/exporter.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

struct Placed {
  int64_t dim = -1;  // the sharded dimension; -1 if replicated
  int64_t factor = 1;

  // Returns the placement as PyTorch prints it.
  std::string Text() const {
    if (dim < 0) return "R";
    return factor == 1 ? "S(" + std::to_string(dim) + ")"
                       : "_S(" + std::to_string(dim) + ", " +
                             std::to_string(factor) + ")";
  }
  std::string Python() const {
    if (dim < 0) return "Replicate()";
    return factor == 1 ? "Shard(" + std::to_string(dim) + ")"
                       : "_StridedShard(" + std::to_string(dim) +
                             ", split_factor=" + std::to_string(factor) + ")";
  }
};

Placed PlacedOn(const Mesh& mesh, size_t axis, const Spec& spec,
                const DimParts& parts) {
  for (size_t d = 0; d < spec.size(); ++d) {
    // StateParts refuses parts whose sizes are stated.
    Placed placed{static_cast<int64_t>(d), PartsAt(parts, d).count};
    for (const std::string& name : spec[d]) {
      const size_t at = mesh.Find(name).value_or(0);
      if (at == axis) return placed;
      if (at > axis) placed.factor *= mesh.axes[at].size;
    }
  }
  return {};
}

std::vector<Placed> PlacedBy(const Mesh& mesh, const ReadParam& param,
                             Mode mode) {
  std::vector<Placed> out;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    out.push_back(PlacedOn(mesh, i, param.SpecOf(mode), param.parts));
  }
  return out;
}

// Returns false and adds a finding if the axes of an uneven dimension are not
// in the order of the mesh. PyTorch gives the parts of a `_StridedShard` other
// sizes than the plan does.
bool UnevenInMeshOrder(const ReadPlan& plan, Mode mode, Findings& findings) {
  for (const ReadParam& param : plan.params) {
    if (!param.uneven) continue;
    const Spec& spec = param.SpecOf(mode);
    const auto dims = UnevenDims(plan.mesh, *param.type.shape, spec);
    for (const Placed& placed : PlacedBy(plan.mesh, param, mode)) {
      if (placed.factor == 1 || !IsAmong(AsIndex(placed.dim), dims)) {
        continue;
      }
      findings.Add(
          code::kInexpressible, param.place,
          "the axes of " + ShortQuote(SpecText(spec)) + " of " +
              ShortQuote(param.name) + " do not divide its dimension " +
              std::to_string(placed.dim) +
              " and are not in the order of the mesh: the parts of a "
              "`_StridedShard` have other sizes than those of the plan",
          "write them in the order of the mesh");
      return false;
    }
  }
  return true;
}

// Returns whether all parameters can be expressed without `_StridedShard`. If
// not, reports the first parameter that needs `_StridedShard`.
bool NoneStrided(const ReadPlan& plan, Mode mode, Findings& findings) {
  for (const ReadParam& param : plan.params) {
    for (const Placed& placed : PlacedBy(plan.mesh, param, mode)) {
      if (placed.factor == 1) continue;
      const bool several = PartsAt(param.parts, AsIndex(placed.dim)).several();
      findings.Add(code::kInexpressible, param.place,
                   "the axes of " + ShortQuote(SpecText(param.SpecOf(mode))) +
                       " of " + ShortQuote(param.name) +
                       (several ? " divide each of several parts of a dimension"
                                : " are not in the order of the mesh") +
                       ", which needs `_StridedShard`",
                   several ? "omit `--no-strided`"
                           : "write them in the order of the mesh, or omit "
                             "`--no-strided`");
      return false;
    }
  }
  return true;
}

constexpr std::string_view kDtensorImports = R"(
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
)";

constexpr std::string_view kOneSlice = R"(

def mesh(device_type="cuda"):
    """The device mesh; a process group of as many ranks is needed. Rank n is
    device n of the plan."""
    return init_device_mesh(device_type, tuple(AXES.values()),
                            mesh_dim_names=tuple(AXES))
)";

constexpr std::string_view kSlices = R"(

def mesh(device_type="cuda"):
    """The device mesh; a process group of as many ranks is needed. Rank n is
    device n of the plan, which numbers one slice before the next."""
    return DeviceMesh(device_type,
                      torch.tensor(DEVICES).reshape(tuple(AXES.values())),
                      mesh_dim_names=tuple(AXES))
)";

constexpr std::string_view kDtensorFunctions = R"(

def distribute(tensors, on=None, **options):
    """{name: DTensor} of {name: tensor} over the mesh `on`."""
    on = mesh() if on is None else on
    return {name: distribute_tensor(tensor, on, PLACEMENTS[name], **options)
            for name, tensor in tensors.items()}
)";

void WritePython(const Request& request, Sink& out) {
  const ReadPlan& plan = request.plan;
  std::string lines;
  for (const ReadParam& param : plan.params) {
    std::string placements;
    for (const Placed& placed :
         PlacedBy(plan.mesh, param, request.options.mode)) {
      AppendItem(placements, ", ", placed.Python());
    }
    lines += "    " + PythonString(param.name) + ": [" + placements + "],\n";
  }
  out.Append("\"\"\"Placements of " + std::to_string(plan.params.size()) +
             " parameters, " + std::string(ModeName(request.options.mode)) +
             ".\n\nMade by `shardc export dtensor` from plan\n" +
             plan.fingerprint + ".\n\"\"\"\n");
  const std::vector<int64_t> devices = DeviceOrder(plan.mesh);
  out.Append(devices.empty()
                 ? "\nfrom torch.distributed.device_mesh import "
                   "init_device_mesh"
                 : "\nimport torch\nfrom torch.distributed.device_mesh import "
                   "DeviceMesh");
  out.Append(kDtensorImports);
  if (lines.find("_StridedShard(") != std::string::npos) {
    out.Append(
        "from torch.distributed.tensor.placement_types import "
        "_StridedShard\n");
  }
  out.Append("\nAXES = " + AxesText(plan.mesh) + "\n");
  if (!devices.empty()) {
    std::string numbers = Join(devices, ", ");
    out.Append("# In row-major order of the mesh.\nDEVICES = [" + numbers +
               "]\n");
  }
  out.Append("\nPLACEMENTS = {\n" + lines + "}\n");
  out.Append(devices.empty() ? kOneSlice : kSlices);
  out.Append(kDtensorFunctions);
}

void WriteJson(const Request& request, Sink& out) {
  const ReadPlan& plan = request.plan;
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Key("mesh");
  json.BeginObject();
  json.Key("mesh_dim_names");
  json.Array(plan.mesh.axes, &MeshAxis::name);
  json.Key("shape");
  json.Array(plan.mesh.axes, &MeshAxis::size);
  if (const auto devices = DeviceOrder(plan.mesh); !devices.empty()) {
    json.Member("devices", devices);
  }
  json.EndObject();
  json.Key("params");
  json.BeginObject(JsonLayout::kLines);
  for (const ReadParam& param : plan.params) {
    json.Key(param.name);
    json.Array(PlacedBy(plan.mesh, param, request.options.mode), &Placed::Text);
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

void WriteDtensor(const Request& request, Sink& out, Findings& findings) {
  if (!NoPlacements(request.plan, "dtensor", findings) ||
      !CanListDevices(request.plan.mesh, "dtensor", findings)) {
    return;
  }
  if (!UnevenInMeshOrder(request.plan, request.options.mode, findings)) return;
  if (request.options.no_strided &&
      !NoneStrided(request.plan, request.options.mode, findings)) {
    return;
  }
  if (request.options.json) {
    WriteJson(request, out);
  } else {
    WritePython(request, out);
  }
}

}  // namespace

constexpr Exporter kDtensor{
    .name = "dtensor",
    .what = "PyTorch's device mesh and placements, as Python or JSON",
    .formats = "text|json",
    .flags = "--mode --no-strided",
    .write = WriteDtensor,
    .of_stage = true,
    .parts_form = PartsForm::kWritesEqual};

}  // namespace shardc::exports
