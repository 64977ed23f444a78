// Exports a plan as a Shardy (MLIR) module: the mesh, and a function whose
// arguments are the parameters. Each argument has its sharding and the
// parameter's name as JAX writes it. For example:
//
//   %arg0: tensor<8x4xf32> {jax.arg_info = "w",
//     sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}
//
// Dimensions are closed: propagation must not add axes to them. With `--open`
// they are marked as open (`?`), and propagation may shard them further. With
// `--priorities` each sharded dimension has a priority: the round in which
// Shardy propagates its sharding.
#include <algorithm>
#include <set>

#include "emit/exports/exporter.h"
#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

// Returns an MLIR string literal.
std::string MlirString(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      out += c;
    } else {
      out += '\\';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out + '"';
}

std::string_view ElementType(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
      return "i1";
    case Dtype::kU8:
      return "ui8";
    case Dtype::kI8:
      return "i8";
    case Dtype::kI16:
      return "i16";
    case Dtype::kU16:
      return "ui16";
    case Dtype::kI32:
      return "i32";
    case Dtype::kU32:
      return "ui32";
    case Dtype::kI64:
      return "i64";
    case Dtype::kU64:
      return "ui64";
    case Dtype::kF16:
      return "f16";
    case Dtype::kBF16:
      return "bf16";
    case Dtype::kF32:
      return "f32";
    case Dtype::kF64:
      return "f64";
    case Dtype::kC64:
      return "complex<f32>";
    case Dtype::kF8E4M3:
      return "f8E4M3FN";
    case Dtype::kF8E5M2:
      return "f8E5M2";
    case Dtype::kF8E8M0:
      return "f8E8M0FNU";
    case Dtype::kF4:
      return "f4E2M1FN";
    case Dtype::kF6E2M3:
      return "f6E2M3FN";
    case Dtype::kF6E3M2:
      return "f6E3M2FN";
    case Dtype::kI4:
      return "i4";
    case Dtype::kU4:
      return "ui4";
    case Dtype::kF8E4M3Fnuz:
      return "f8E4M3FNUZ";
    case Dtype::kF8E5M2Fnuz:
      return "f8E5M2FNUZ";
    default:
      return {};  // MLIR has no type for block-quantised tensors
  }
}

std::string TensorText(const TensorType& type) {
  std::string out = "tensor<";
  for (const int64_t size : *type.shape) out += std::to_string(size) + "x";
  return out + std::string(ElementType(type.dtype.value_or(Dtype::kF32))) + ">";
}

// Returns `<["dp"=2, "tp"=2], device_ids=[0, 2, 1, 3]>`. `device_ids` is
// omitted if devices are numbered in row-major order, as Shardy does by
// default.
std::string MeshLiteral(const Mesh& mesh) {
  std::string axes, devices;
  for (const MeshAxis& axis : mesh.axes) {
    AppendItem(axes, ", ",
               MlirString(axis.name) + "=" + std::to_string(axis.size));
  }
  for (const int64_t device : DeviceOrder(mesh)) {
    AppendItem(devices, ", ", std::to_string(device));
  }
  return "<[" + axes + "]" +
         (devices.empty() ? "" : ", device_ids=[" + devices + "]") + ">";
}

// Returns the propagation round of a dimension: the lowest position of one of
// its axes in `order`. If `order` has none of its axes, the dimension gets the
// last round, `order.size()`.
size_t RoundOf(const AxisGroup& group, const std::vector<std::string>& order) {
  size_t round = order.size();
  for (const std::string& axis : group) {
    const auto at = std::find(order.begin(), order.end(), WholeAxis(axis));
    round = std::min(round, AsIndex(at - order.begin()));
  }
  return round;
}

std::string DimensionText(const AxisGroup& group, const Options& options) {
  std::string out;
  for (const std::string& axis : group) {
    const auto sub = ParseSubAxis(axis);
    AppendItem(out, ", ", MlirString(WholeAxis(axis)));
    // `"tp":(1)8` is a factor of an axis.
    if (sub) {
      out +=
          ":(" + std::to_string(sub->before) + ")" + std::to_string(sub->size);
    }
  }
  if (options.open) out += out.empty() ? "?" : ", ?";
  if (out.empty() || options.priorities.empty()) return "{" + out + "}";
  return "{" + out + "}p" + std::to_string(RoundOf(group, options.priorities));
}

std::string ShardingText(const Mesh& mesh, const Spec& spec,
                         const Options& options) {
  std::string out;
  std::set<std::string> used;
  for (const AxisGroup& group : spec) {
    AppendItem(out, ", ", DimensionText(group, options));
    used.insert(group.begin(), group.end());
  }
  out = "#sdy.sharding<@mesh, [" + out + "]";
  std::string unused;
  for (const MeshAxis& axis : mesh.axes) {
    if (used.contains(axis.name)) continue;
    AppendItem(unused, ", ", MlirString(axis.name));
  }
  if (options.replicated && !unused.empty()) {
    out += ", replicated={" + unused + "}";
  }
  return out + ">";
}

// Returns the parameter's name as JAX writes the path of an argument. A name
// with `[` or a leading dot is written as a key, `['[0]']`, because `[0]` would
// mean element 0 of a list.
std::string JaxPath(const std::string& name) {
  if (name.find('[') == std::string::npos && !name.starts_with('.')) {
    return name;
  }
  const bool single = name.find("']") == std::string::npos;
  return single ? "['" + name + "']" : "[\"" + name + "\"]";
}

void WriteModule(const Request& request, Sink& out) {
  const ReadPlan& plan = request.plan;
  out.Append("// " + plan.fingerprint + ", " +
             std::string(ModeName(request.options.mode)) + "\nmodule {\n");
  out.Append("  sdy.mesh @mesh = " + MeshLiteral(plan.mesh) + "\n");
  out.Append("  func.func public @main(");
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const ReadParam& param = plan.params[i];
    const Spec spec =
        Padded(param.SpecOf(request.options.mode), param.type.shape->size());
    out.Append(i == 0 ? "\n" : ",\n");
    out.Append(
        "      %arg" + std::to_string(i) + ": " + TensorText(param.type) +
        " {jax.arg_info = " + MlirString(JaxPath(param.name)) +
        ", sdy.sharding = " + ShardingText(plan.mesh, spec, request.options) +
        "}");
  }
  out.Append(") {\n    return\n  }\n}\n");
}

void WriteShardy(const Request& request, Sink& out, Findings& findings) {
  const ReadPlan& plan = request.plan;
  const std::vector<std::string>& priorities = request.options.priorities;
  if (!NoPlacements(plan, "shardy", findings) ||
      !CanListDevices(plan.mesh, "shardy", findings) ||
      !ShapesKnown(plan, "shardy", findings) ||
      !EvenShards(plan, {"shardy", kPaddedByXla, request.options.mode},
                  findings) ||
      (!request.options.json && !NoBlocks(plan, "shardy", findings)) ||
      !std::all_of(priorities.begin(), priorities.end(),
                   [&](const std::string& axis) {
                     return HasAxis(plan.mesh, "--priorities", axis, findings);
                   })) {
    return;
  }
  if (!request.options.json) {
    WriteModule(request, out);
    return;
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("mesh", "sdy.mesh @mesh = " + MeshLiteral(plan.mesh));
  json.Key("params");
  json.BeginObject(JsonLayout::kLines);
  for (const ReadParam& param : plan.params) {
    json.Member(param.name,
                ShardingText(plan.mesh,
                             Padded(param.SpecOf(request.options.mode),
                                    param.type.shape->size()),
                             request.options));
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

}  // namespace

constexpr Exporter kShardy{
    .name = "shardy",
    .what = "an MLIR module with a mesh and a sharding per parameter",
    .formats = "text|json",
    .flags = "--mode --open --replicated --priorities",
    .write = WriteShardy,
    .kv_form = KvForm::kSubAxes};

}  // namespace shardc::exports
