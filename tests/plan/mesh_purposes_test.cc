#include "plan/mesh_purposes.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "meshes.h"

namespace shardc {
namespace {

// Returns the axis rules and the axes without a rule as one text.
std::string Text(std::vector<MeshAxis> axes) {
  const MeshPurposes purposes = PurposesOf(MeshOf(std::move(axes)));
  std::string out =
      purposes.renamed == AxisRules() ? "" : AxesText(purposes.renamed);
  for (const std::string& axis : purposes.stages) out += " stages " + axis;
  for (const std::string& axis : purposes.unknown) out += " unknown " + axis;
  return out;
}

TEST_CASE("the names of axes state their purposes") {
  const struct {
    const char* axis;
    const char* rule;
  } rows[] = {{"data", "fully_sharded_data_parallel"},
              {"batch", "fully_sharded_data_parallel"},
              {"Data", "fully_sharded_data_parallel"},
              {"replica", "data_parallel"},
              {"dp_replicate", "data_parallel"},
              {"DP", "data_parallel"},
              {"dp_shard", "fully_sharded_data_parallel"},
              {"zero", "fully_sharded_data_parallel"},
              {"model", "tensor_parallel"},
              {"tensor", "tensor_parallel"},
              {"mp", "tensor_parallel"},
              {"expert", "expert_parallel"},
              {"seq", "sequence_parallel"},
              {"context", "sequence_parallel"},
              {"cp", "sequence_parallel"}};
  for (const auto& row : rows) {
    CAPTURE(row.axis);
    CHECK(Text({{row.axis, 4}}) ==
          "axes: {" + std::string(row.rule) + ": " + row.axis + "}");
  }
  for (const char* axis : {"dp", "fsdp", "tp", "sp", "ep"}) {
    CHECK(Text({{axis, 4}}).empty());
  }
}

TEST_CASE("a purpose may belong to several axes") {
  CHECK(Text({{"data", 2}, {"fsdp", 4}}) == "axes: {data_parallel: data}");
  CHECK(Text({{"data", 2}, {"dp", 2}, {"fsdp", 4}}) ==
        "axes: {data_parallel: [dp, data]}");
  CHECK(Text({{"model", 2}, {"tp", 2}}) ==
        "axes: {tensor_parallel: [tp, model]}");
  CHECK(Text({{"model", 2}, {"mp", 2}}) ==
        "axes: {tensor_parallel: [model, mp]}");
  CHECK(Text({{"replica", 2}, {"data", 2}}) ==
        "axes: {data_parallel: replica, fully_sharded_data_parallel: data}");
}

TEST_CASE("axes of stages and axes without a known name have no rule") {
  CHECK(Text({{"stage", 2}, {"x", 2}, {"pp", 4}, {"y", 1}, {"pipe", 1}}) ==
        " stages stage stages pp unknown x");
}

TEST_CASE("the section has lists, empty lists and null") {
  AxisRules rules;
  rules.Set(AxisRule::kBatch, {false, {"a", "b"}});
  rules.Set(AxisRule::kHead, {});
  rules.Set(AxisRule::kDecodeHead, {false, {}});
  CHECK(AxesText(rules) ==
        "axes: {batch: [a, b], head: null, decode_head: []}");
}

}  // namespace
}  // namespace shardc
