// Finds arguments that a compiled program shards in another way than a plan.
// The text of a partitioned program has the shape of each argument on a device
// and the argument's sharding:
//
//   %p = f32[4,32,64] parameter(3), sharding={devices=[1,2,2,2]<=[2,2,2]T(..)
//       last_tile_dim_replicate}, metadata={op_name="p['layers']['gate']"}
//   ->  layers/gate is sharded as [null, "fsdp", "tp"]
//
// The shape on a device, multiplied by the number of shards of each dimension,
// is the global shape: [4,64,128] here. The sharding is compared with the plan
// only if the plan's parameter of that name has this global shape.
#include "audit/drift.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "hlo/shapes.h"
#include "importers/rules/exact.h"
#include "importers/rules/hlo.h"
#include "source/checked.h"

namespace shardc::audit {
namespace {

struct Argument {
  std::string name;
  hlo::Array array;
  std::string_view sharding;
};

std::vector<Argument> ArgumentsOf(const hlo::Program& program) {
  std::vector<Argument> out;
  const hlo::Computation& entry = program.computations[program.entry];
  for (uint32_t i = entry.begin; i < entry.end; ++i) {
    const hlo::Instruction at = program.instructions[i];
    if (at.opcode != "parameter") continue;
    const auto sharding = hlo::AttributeOf(at.attributes, "sharding");
    const auto path = hlo::OpNameOf(at);
    auto arrays = hlo::ArraysOf(at.type);
    if (!sharding || !path || arrays.size() != 1) continue;
    out.push_back(
        {imports::NameOfPath(*path), std::move(arrays[0]), *sharding});
  }
  return out;
}

// Returns the name with slashes in place of dots, so that `a.b` and `a/b`
// compare equal.
std::string WithSlashes(std::string name) {
  std::ranges::replace(name, '.', '/');
  return name;
}

// Returns the spec without axes of size 1 and without unsharded dimensions at
// the end.
Spec Normal(const Mesh& mesh, Spec spec) {
  for (AxisGroup& group : spec) {
    std::erase_if(
        group, [&](const std::string& axis) { return mesh.SizeOf(axis) == 1; });
  }
  while (!spec.empty() && spec.back().empty()) spec.pop_back();
  return spec;
}

// Returns whether `array` is one shard of an array with the global shape
// `shape` under the spec. Without a spec, returns whether the ranks are equal.
bool MakesUp(const Mesh& mesh, const hlo::Array& array,
             const std::optional<Spec>& spec, const Shape& shape) {
  if (array.dims.size() != shape.size()) return false;
  for (size_t d = 0; spec && d < shape.size(); ++d) {
    const auto parts = mesh.Parts(AxesAt(*spec, d));
    if (!parts || CheckedMul(array.dims[d], *parts) != shape[d]) return false;
  }
  return true;
}

}  // namespace

Drifts DriftsOf(const hlo::Program& program, const Mesh& mesh,
                std::span<const Planned> plan) {
  std::unordered_map<std::string, const Planned*> by_name;
  for (const Planned& one : plan) by_name.emplace(WithSlashes(one.name), &one);
  const auto find = [&](const std::string& argument) -> const Planned* {
    std::string name = WithSlashes(argument);
    while (true) {
      const auto found = by_name.find(name);
      if (found != by_name.end()) return found->second;
      const size_t slash = name.find('/');
      if (slash == std::string::npos) return nullptr;
      name.erase(0, slash + 1);
    }
  };
  const auto arguments = ArgumentsOf(program);
  std::vector<std::string_view> shardings;
  for (const Argument& one : arguments) shardings.push_back(one.sharding);
  const auto specs = imports::SpecsOfShardings(program.source, mesh, shardings);
  Drifts out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& one = arguments[i];
    const Planned* planned = find(one.name);
    if (planned == nullptr ||
        !MakesUp(mesh, one.array, specs[i], planned->shape)) {
      continue;
    }
    ++out.compared;
    const Spec expected = Normal(mesh, planned->spec);
    std::optional<Spec> actual = specs[i];
    if (actual) actual = Normal(mesh, std::move(*actual));
    if (actual == expected) continue;
    out.all.push_back({one.name, planned->name, expected, std::move(actual),
                       std::string(one.sharding)});
  }
  return out;
}

}  // namespace shardc::audit
