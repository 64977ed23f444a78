// Corrects a spec as eformer does, dimension by dimension: pads or truncates it
// to the rank, and drops entries that do not fit.
//
// Example: ("fsdp", "tp") for [6, 4] on fsdp:4,tp:2 becomes (None, "tp"),
// because 4 does not divide 6. For [6, 3] nothing is left, which is written ().
#include "reference/legalize.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "source/size.h"

namespace shardc::reference {
namespace {

std::vector<Value> MembersOf(const Value& entry) {
  if (entry.IsNone()) return {};
  if (entry.IsSequence()) return entry.items;
  return {entry};
}

bool Fits(const Value& entry, int64_t size, const Mesh& mesh) {
  std::optional<int64_t> parts = 1;
  for (const Value& axis : MembersOf(entry)) {
    if (!axis.IsName() || !mesh.Find(axis.name)) return false;
    if (parts) parts = CheckedMul(*parts, mesh.SizeOf(axis.name));
  }
  // Every number divides a size of 0, even one that does not fit in 64 bits.
  return size == 0 || (parts && *parts != 0 && size % *parts == 0);
}

PartitionSpec Corrected(const Shape& shape, PartitionSpec spec,
                        const Mesh& mesh) {
  spec.resize(shape.size());
  for (size_t i = 0; i < spec.size(); ++i) {
    if (!Fits(spec[i], shape[i], mesh)) spec[i] = Value::None();
  }
  if (std::all_of(spec.begin(), spec.end(),
                  [](const Value& entry) { return entry.IsNone(); })) {
    spec.clear();
  }
  return spec;
}

// Checks for repeated axes, as JAX does when a NamedSharding is made.
std::optional<Error> CheckDuplicates(const PartitionSpec& spec) {
  std::set<std::string> seen;
  for (const Value& entry : spec) {
    for (const Value& axis : MembersOf(entry)) {
      if (axis.IsName() && !seen.insert(axis.name).second) {
        return Error{"DuplicateSpecError", "duplicate_mesh_axis",
                     "A single NamedSharding specification can map every mesh"
                     " axis to at most one positional dimension, but the spec"
                     " has duplicate entries for `" +
                         axis.name + "`"};
      }
    }
  }
  return std::nullopt;
}

Result<PartitionSpec> CorrectAndCheck(const Shape& shape, PartitionSpec spec,
                                      const Mesh& mesh) {
  PartitionSpec corrected = Corrected(shape, std::move(spec), mesh);
  if (auto error = CheckDuplicates(corrected)) return *error;
  return corrected;
}

}  // namespace

Result<PartitionSpec> CorrectedNamedSharding(const Shape& shape,
                                             std::span<const Value> spec,
                                             const Mesh& mesh,
                                             bool raise_mesh_error) {
  auto made = MakePartitionSpec(spec);
  if (Failure(made)) return made;
  if (mesh.axes.empty()) {
    if (!raise_mesh_error) return PartitionSpec{};
    return Error{"AssertionError", "no_mesh",
                 "No mesh found under this context manager."};
  }
  return CorrectAndCheck(shape, std::get<PartitionSpec>(std::move(made)), mesh);
}

Result<std::optional<PartitionSpec>> ShardingConstraint(
    const Shape& shape, std::span<const Value> spec, const Mesh& mesh) {
  auto made = MakePartitionSpec(spec);
  if (const auto* error = Failure(made)) return *error;
  auto& normal = std::get<PartitionSpec>(made);
  if (mesh.axes.empty() || normal.empty()) {
    return std::optional<PartitionSpec>();
  }
  auto corrected = CorrectAndCheck(shape, std::move(normal), mesh);
  if (const auto* error = Failure(corrected)) return *error;
  return std::optional(std::get<PartitionSpec>(std::move(corrected)));
}

std::optional<Error> Refusal(const PartitionSpec& spec, const Shape& shape,
                             const Mesh& mesh) {
  if (spec.size() > shape.size()) {
    return Error{"ValueError", "spec_too_long", "rank is too small"};
  }
  for (const Value& entry : spec) {
    for (const Value& axis : MembersOf(entry)) {
      if (axis.IsName() && mesh.Find(axis.name)) continue;
      return Error{"ValueError", "unknown_mesh_axis", axis.name};
    }
  }
  if (auto error = CheckDuplicates(spec)) return error;
  for (size_t i = 0; i < spec.size(); ++i) {
    if (!Fits(spec[i], shape[i], mesh)) {
      return Error{"ValueError", "indivisible", std::to_string(shape[i])};
    }
  }
  return std::nullopt;
}

}  // namespace shardc::reference
