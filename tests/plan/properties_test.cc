// Checks properties that hold for every mesh, rule set and shape.
#include <doctest/doctest.h>

#include <set>

#include "legalize/legalize.h"
#include "model/mesh_layout.h"
#include "plan/compile.h"
#include "plan/fingerprint.h"
#include "random_case.h"
#include "resolve/resolve.h"

namespace shardc {
namespace {

constexpr uint64_t kSpecCases = 20000;
constexpr uint64_t kPlanCases = 400;

// Returns whether a spec is legal by JAX's four rules, implemented
// independently of src/legalize. Without `even`, axes need not divide a
// dimension.
bool IsLegal(const Spec& spec, const Shape& shape, const Mesh& mesh,
             bool even = true) {
  if (spec.size() > shape.size()) return false;
  std::set<std::string> seen;
  for (size_t i = 0; i < spec.size(); ++i) {
    int64_t parts = 1;
    for (const std::string& axis : spec[i]) {
      if (!mesh.Find(axis) || !seen.insert(axis).second) return false;
      parts *= mesh.SizeOf(axis);
    }
    if (even && shape[i] % parts != 0) return false;
  }
  return true;
}

// Returns whether the shards of all parts together have the tensor's shape.
bool ShardsMakeTheTensor(const Spec& spec, const Shape& shape,
                         const Mesh& mesh) {
  const Shape shard = ShardShape(mesh, shape, spec);
  if (shard.size() != shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t parts = 1;
    if (i < spec.size()) {
      for (const std::string& axis : spec[i]) parts *= mesh.SizeOf(axis);
    }
    if (shard[i] * parts != shape[i]) return false;
  }
  return true;
}

bool IsPartOf(const AxisGroup& part, const AxisGroup& whole) {
  size_t at = 0;
  for (const std::string& axis : whole) {
    if (at < part.size() && part[at] == axis) ++at;
  }
  return at == part.size();
}

void CheckLegal(const Spec& spec, const Shape& shape, const Mesh& mesh,
                const LegalizeOptions& options) {
  const Legal legal = Legalize(spec, shape, mesh, options);
  if (!legal.problems.empty()) {
    // Policies other than `error` correct every problem, except that `drop`
    // does not correct a repeated axis.
    for (const Edit& problem : legal.problems) {
      if (options.illegal == IllegalPolicy::kError) break;
      CHECK(problem.reason == Reason::kRepeatedAxis);
      CHECK(options.illegal == IllegalPolicy::kDrop);
    }
    CHECK_FALSE(IsLegal(legal.spec, shape, mesh));
    return;
  }
  CHECK(IsLegal(legal.spec, shape, mesh));
  CHECK(ShardsMakeTheTensor(legal.spec, shape, mesh));
  for (size_t i = 0; i < legal.spec.size(); ++i) {
    CHECK(IsPartOf(legal.spec[i], spec[i]));
  }
  CHECK((legal.spec == spec) == legal.edits.empty());
  const Legal again = Legalize(legal.spec, shape, mesh, options);
  CHECK(again.spec == legal.spec);
  CHECK(again.edits.empty());
  CHECK(again.problems.empty());
}

void CheckSameModes(const ParamLayout& a, const ParamLayout& b) {
  REQUIRE(a.modes.size() == b.modes.size());
  for (size_t i = 0; i < a.modes.size(); ++i) {
    CHECK(a.modes[i].spec == b.modes[i].spec);
    CHECK(a.modes[i].resolved == b.modes[i].resolved);
    CHECK(a.modes[i].edits == b.modes[i].edits);
    CHECK(a.modes[i].problems == b.modes[i].problems);
  }
}

TEST_CASE("plans of random cases have only specs that are legal in JAX") {
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kSpecCases; ++seed) {
    INFO("SHARDC_SEED=", seed);
    RandomCase random(seed);
    const Mesh mesh = random.RandomMesh();
    Shape shape = random.RandomShape();
    if (shape.empty()) shape = {6};  // rank 0 has a test of its own
    const Spec spec = random.RandomSpec();
    for (auto policy : {IllegalPolicy::kError, IllegalPolicy::kDrop,
                        IllegalPolicy::kShrink}) {
      CheckLegal(spec, shape, mesh, {policy, Compat::kNone, 0});
    }
    const Legal pad = Legalize(spec, shape, mesh, {IllegalPolicy::kPad});
    CHECK(pad.spec == spec);
    CHECK(pad.edits.empty());
    CHECK(pad.problems.empty() == IsLegal(spec, shape, mesh, false));
    const Legal error = Legalize(spec, shape, mesh, {});
    CHECK(error.spec == spec);
    CHECK(error.edits.empty());
    CHECK(error.problems.empty() == IsLegal(spec, shape, mesh));
    for (auto compat : {Compat::kEformer, Compat::kFjformer}) {
      const Legal legal = Legalize(
          spec, shape, mesh, {IllegalPolicy::kDrop, compat, random.Below(9)});
      CHECK(legal.problems.empty() == IsLegal(legal.spec, shape, mesh));
    }
  }
}

TEST_CASE("compiling is deterministic, and legal specs stay as they are") {
  int64_t legal = 0;
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kPlanCases; ++seed) {
    INFO("SHARDC_SEED=", seed);
    RandomCase random(seed);
    const Mesh mesh = random.RandomMesh();
    const RuleSet rules = random.RandomRules(mesh);
    const Manifest manifest = random.RandomManifest();
    Findings findings;
    const auto plan = Compile(mesh, rules, manifest, {}, findings);
    const auto again = Compile(mesh, rules, manifest, {}, findings);
    REQUIRE(plan);
    REQUIRE(again);
    CHECK(Fingerprint(plan->plan) == Fingerprint(again->plan));
    for (size_t i = 0; i < plan->plan.layouts.size(); ++i) {
      const ParamLayout& layout = plan->plan.layouts[i];
      CheckSameModes(layout, again->plan.layouts[i]);
      const auto& shape = plan->plan.types[layout.type].shape;
      for (const ModeLayout& mode : layout.modes) {
        if (!mode.problems.empty()) continue;
        ++legal;
        CHECK(IsLegal(mode.spec, *shape, mesh));
        CHECK(ShardsMakeTheTensor(mode.spec, *shape, mesh));
      }
    }
  }
  CHECK(legal > 1000);
}

TEST_CASE(
    "renaming mesh axes renames them in the plan and changes nothing else") {
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kPlanCases; ++seed) {
    INFO("SHARDC_SEED=", seed);
    RandomCase random(seed);
    const Mesh mesh = random.RandomMesh();
    const RuleSet rules = random.RandomRules(mesh);
    const Manifest manifest = random.RandomManifest();
    Findings findings;
    const auto plan = Compile(mesh, rules, manifest, {}, findings);
    const auto other =
        Compile(Renamed(mesh), Renamed(rules, mesh), manifest, {}, findings);
    REQUIRE(plan);
    REQUIRE(other);
    REQUIRE(plan->plan.params.size() == other->plan.params.size());
    REQUIRE(plan->plan.layouts.size() == other->plan.layouts.size());
    CHECK(plan->plan.summary.illegal == other->plan.summary.illegal);
    CHECK(plan->plan.summary.bytes_per_device ==
          other->plan.summary.bytes_per_device);
    for (size_t i = 0; i < plan->plan.params.size(); ++i) {
      CHECK(plan->plan.params[i].layout == other->plan.params[i].layout);
    }
    for (size_t i = 0; i < plan->plan.layouts.size(); ++i) {
      const ParamLayout& a = plan->plan.layouts[i];
      const ParamLayout& b = other->plan.layouts[i];
      CHECK(a.rule == b.rule);
      REQUIRE(a.modes.size() == b.modes.size());
      for (size_t m = 0; m < a.modes.size(); ++m) {
        CHECK(Renamed(a.modes[m].spec) == b.modes[m].spec);
        CHECK(Renamed(a.modes[m].resolved) == b.modes[m].resolved);
        CHECK(a.modes[m].shard_shape == b.modes[m].shard_shape);
        CHECK(a.modes[m].edits.size() == b.modes[m].edits.size());
        CHECK(a.modes[m].problems.size() == b.modes[m].problems.size());
      }
    }
  }
}

}  // namespace
}  // namespace shardc
