// Compares plans with JAX: which device holds which slice, and which specs are
// refused.
#include <algorithm>
#include <string>
#include <utility>

#include "checkpoint/transfer.h"
#include "doctest/doctest.h"
#include "model/mesh_layout.h"
#include "plan/compile.h"
#include "records.h"

namespace shardc {
namespace {

constexpr int64_t kShardings = 1000;
constexpr int64_t kRefusals = 120;
constexpr int64_t kSliceMeshes = 60;

// Plans one parameter `w` with one rule that gives it the spec.
std::unique_ptr<const Compiled> PlanOf(const ShardingCase& asked,
                                       Findings& findings) {
  Rule rule;
  rule.match = "w";
  SpecList list;
  for (const AxisGroup& group : asked.spec) {
    SpecEntry& entry = list.entries.emplace_back();
    for (const std::string& axis : group) entry.names.push_back({axis, {}});
    entry.is_group = group.size() > 1;
  }
  rule.spec = std::move(list);
  RuleSet rules;
  rules.rules.push_back(std::move(rule));
  ManifestBuilder builder;
  builder.Add("w", {asked.shape, Dtype::kF32});
  return Compile(asked.mesh, std::move(rules), builder.Take(), {}, findings);
}

const ModeLayout& TrainLayout(const Plan& plan) {
  return plan.layouts.at(plan.params.at(0).layout).modes.at(0);
}

// Returns whether the plan gives every device the slice that JAX gives it.
bool SlicesAgree(const ShardingCase& asked, JsonValue answer) {
  Findings findings;
  const auto compiled = PlanOf(asked, findings);
  if (compiled == nullptr || compiled->HasIllegal()) return false;
  const ModeLayout& layout = TrainLayout(compiled->plan);
  const Shape shard_shape = Integers(Member(answer, "shard_shape"));
  if (layout.shard_shape != shard_shape) return false;
  const auto cut = Partition::Make(layout.spec, asked.shape, asked.mesh);
  if (!cut) return false;
  int64_t device = 0;
  for (JsonValue offset : Member(answer, "offsets").items()) {
    const Box recorded{Integers(offset), shard_shape};
    const auto coordinates = CoordinatesOf(asked.mesh, device++);
    if (cut->BoxOf(cut->PartOf(coordinates)) != recorded) return false;
  }
  return device == asked.mesh.devices;
}

// Returns whether the plan refuses the spec. A scalar counts as refused if it
// gets no spec, because rules are not tried on scalars.
bool IsRefused(const ShardingCase& asked) {
  Findings findings;
  const auto compiled = PlanOf(asked, findings);
  if (compiled == nullptr || compiled->HasIllegal()) return true;
  return asked.shape.empty() && TrainLayout(compiled->plan).spec.empty();
}

TEST_CASE("every device's slice is the one that JAX gives it") {
  const auto record = LoadRecord("jax/shardings");
  int64_t cases = 0;
  for (JsonValue entry : Member(record->root(), "cases").items()) {
    const ShardingCase asked = RecordedCase(entry);
    CHECK_MESSAGE(SlicesAgree(asked, entry), asked.text);
    ++cases;
  }
  CHECK(cases == kShardings);
}

TEST_CASE("a slice moved by one would be seen") {
  const auto record = LoadRecord("jax/shardings");
  int64_t seen = 0, turned = 0;
  for (JsonValue entry : Member(record->root(), "cases").items()) {
    ShardingCase asked = RecordedCase(entry);
    for (AxisGroup& group : asked.spec) {
      std::reverse(group.begin(), group.end());
    }
    if (asked.spec == RecordedSpec(Member(entry, "spec"))) continue;
    ++turned;
    seen += SlicesAgree(asked, entry) ? 0 : 1;
  }
  // If axes have size 1, their order makes no difference, so not every reversed
  // group is detected.
  CHECK(seen * 3 > turned);
}

TEST_CASE("what JAX refuses is refused") {
  const auto record = LoadRecord("jax/refusals");
  int64_t cases = 0;
  for (JsonValue entry : Member(record->root(), "cases").items()) {
    const ShardingCase asked = RecordedCase(entry);
    CHECK(Member(entry, "error").IsString());
    CHECK_MESSAGE(IsRefused(asked), asked.text);
    ++cases;
  }
  CHECK(cases == kRefusals);
}

TEST_CASE("devices of several slices stand where JAX puts them") {
  const auto record = LoadRecord("jax/slice_meshes");
  int64_t cases = 0;
  for (JsonValue entry : Member(record->root(), "cases").items()) {
    Mesh mesh;
    mesh.dcn = Integers(Member(entry, "outer"));
    const auto sizes = Integers(Member(entry, "shape"));
    for (size_t i = 0; i < sizes.size(); ++i) {
      mesh.axes.push_back({"a" + std::to_string(i), sizes[i]});
      mesh.devices *= sizes[i];
      mesh.slices *= mesh.dcn[i];
    }
    int64_t position = 0;
    for (JsonValue device : Member(entry, "devices").items()) {
      CHECK(PlaceOf(mesh, position++).device == device.integer());
    }
    CHECK(position == mesh.devices);
    ++cases;
  }
  CHECK(cases == kSliceMeshes);
}

}  // namespace
}  // namespace shardc
