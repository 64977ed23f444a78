#include "meshes.h"
#include "plan/lowered_step.h"

#include <doctest/doctest.h>

#include <vector>

namespace shardc {
namespace {

// Returns a graph with one parameter of this rank.
step::Graph GraphOf(size_t rank) {
  step::Graph out;
  step::Value value;
  for (size_t d = 0; d < rank; ++d) {
    out.labels.emplace_back();
    value.labels.push_back(static_cast<step::LabelId>(d));
  }
  out.values.push_back(std::move(value));
  step::Parameter parameter;
  parameter.value = 0;
  out.parameters.push_back(std::move(parameter));
  return out;
}

Spec States(const std::vector<int64_t>& sizes, const Mesh& mesh, Spec spec) {
  return ShardOverReplicas(GraphOf(sizes.size()), sizes, mesh,
                           {"fsdp", "dp", "sp"}, {std::move(spec)}, 1)
      .states[0];
}

TEST_CASE("replicas shard the dimension of which a device holds most") {
  const Mesh mesh = MeshOf({{"dp", 4}, {"fsdp", 8}, {"tp", 2}});
  CHECK(States({4096, 4096}, mesh, {{"tp"}, {"fsdp"}}) ==
        Spec{{"tp", "dp"}, {"fsdp"}});
  CHECK(States({512, 4096}, mesh, {{"fsdp"}, {}}) == Spec{{"fsdp"}, {"dp"}});
  // The states are sharded over all axes that the spec does not use.
  CHECK(States({4096, 64}, mesh, {}) == Spec{{"fsdp", "dp"}, {}});
  // Devices along an axis that shards no tokens are not replicas.
  CHECK(States({64}, MeshOf({{"tp", 8}}), {}) == Spec{{}});
}

TEST_CASE("what no dimension divides by stays replicated") {
  const Mesh mesh = MeshOf({{"dp", 4}, {"fsdp", 8}});
  CHECK(States({9, 3}, mesh, {}) == Spec{{}, {}});
  // The size 8 of fsdp divides 24, but fsdp and dp together, 8 * 4, do not.
  CHECK(States({24, 3}, mesh, {}) == Spec{{"fsdp"}, {}});
  // The axes do not divide the largest dimension, so they shard the other one.
  CHECK(States({99, 64}, mesh, {}) == Spec{{}, {"fsdp", "dp"}});
}

TEST_CASE("stages shard more and more") {
  const Mesh mesh = MeshOf({{"dp", 4}});
  const Spec whole = {{}, {}}, shared = {{"dp"}, {}};
  for (const int stage : {1, 2, 3}) {
    const ZeroSpecs specs =
        ShardOverReplicas(GraphOf(2), {64, 16}, mesh, {"dp"}, {whole}, stage);
    CAPTURE(stage);
    CHECK(specs.states[0] == shared);
    // In stage 1 the sums have the specs of the parameters.
    CHECK(specs.sums ==
          (stage >= 2 ? std::vector<Spec>{shared} : std::vector<Spec>{}));
    CHECK(specs.parameters[0] == (stage >= 3 ? shared : whole));
  }
}

}  // namespace
}  // namespace shardc
