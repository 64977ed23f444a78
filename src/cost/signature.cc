// Writes the signature of a target: a text that has all shardings on which the
// cost of a step depends. Targets with the same signature are evaluated only
// once. For example, the rules that are bundled with the program for a family
// of models and the rules that are suggested for a mesh often define the same
// shardings.
//
// A signature begins with the mesh. A line follows for each class of
// parameters, and the axes of activations come last. A line of parameters has
// the name, the number of tensors with the dtype, the sizes and, after the
// colon, the axes of each dimension. In this example, 32 tensors of shape
// [14336, 4096] are sharded over fsdp in dimension 0:
//
//   fsdp=64
//   layers.*.up.weight 32BF16 14336 4096:fsdp,;;
#include "cost/signature.h"

#include <set>

#include "model/dtype.h"
#include "step/constraints.h"

namespace shardc::cost {
namespace {

bool IsLegal(const Compiled& compiled) {
  for (const auto& layout : compiled.plan.layouts) {
    for (const ModeLayout& one : layout.modes) {
      if (one.mode == Mode::kTrain && !one.problems.empty()) return false;
    }
  }
  return true;
}

void Add(const AxisGroup& axes, const Mesh& mesh, std::string& out) {
  for (const std::string& axis : axes) {
    if (mesh.SizeOf(axis) > 1) out += axis + ",";
  }
  out += ";";
}

void Add(const Spec& spec, const Mesh& mesh, std::string& out) {
  for (const AxisGroup& axes : spec) Add(axes, mesh, out);
}

void Add(const ParamClass& param, const Mesh& mesh, std::string& out) {
  out += param.name + " " + std::to_string(param.count);
  if (param.type.dtype) out += DtypeName(*param.type.dtype);
  if (param.type.shape) {
    for (const int64_t size : *param.type.shape) {
      out += " " + std::to_string(size);
    }
  }
  out += ":";
  Add(param.spec, mesh, out);
  out += param.placed_along;
  for (const auto& [coordinate, count] : param.placed) {
    out += " " + std::to_string(coordinate) + "=" + std::to_string(count);
  }
  out += "\n";
}

}  // namespace

std::optional<std::string> SignatureOf(const Compiled& compiled,
                                       const CostInputs& work) {
  if (!IsLegal(compiled)) return std::nullopt;
  std::string out = MeshText(work.mesh) + "\n";
  std::set<std::string> names;
  for (const ParamClass& param : work.params) {
    if (!names.insert(param.name).second) return std::nullopt;
    Add(param, work.mesh, out);
  }
  for (const Spec* spec : {&work.query, &work.key, &work.value, &work.output}) {
    Add(*spec, work.mesh, out);
  }
  Add(work.hidden, work.mesh, out);
  if (compiled.rules.model == nullptr) return out + "no model";
  const step::ShardingConstraints constraints =
      step::ShardingConstraintsOf(*compiled.resolver, Mode::kTrain);
  for (const AxisGroup& axes : constraints.by_axis) Add(axes, work.mesh, out);
  for (const step::ShardingConstraintOverride& one : constraints.overrides) {
    Add(one.axes, work.mesh, out);
  }
  Add(constraints.data, work.mesh, out);
  for (const step::ShardingConstraintOverride& one : constraints.overrides) {
    out += one.role + " " + one.token + " ";
    Add(one.axes, work.mesh, out);
  }
  return out;
}

}  // namespace shardc::cost
