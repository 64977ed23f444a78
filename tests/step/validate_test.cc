#include "step/validate.h"
#include "source/size.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "step/lower.h"
#include "step/mlp_graph.h"

namespace shardc::step {
namespace {

Program OnMesh(const Mlp& mlp) {
  const LowerRequest request{
      .graph = &mlp.make.graph,
      .mesh = MeshNamed({{"dp", 2}, {"fsdp", 2}, {"tp", 2}}),
      .sizes = mlp.make.sizes,
      .parameters = {{{"tp"}, {"fsdp"}}, {{"fsdp"}, {"tp"}}},
      .constraints = UsualConstraints()};
  Unsupported why;
  std::optional<Program> program = Lower(request, why);
  REQUIRE(program.has_value());
  return *program;
}

TEST_CASE("what was lowered holds, and nothing of it can be left out") {
  const Mlp mlp;
  const Program right = OnMesh(mlp);
  CHECK(Validate(mlp.make.graph, right, mlp.make.sizes).empty());
  size_t collectives = 0;
  for (size_t i = 0; i < right.code.size(); ++i) {
    if (right.code[i].kind != InstructionKind::kCollective) continue;
    ++collectives;
    // A program in which ops read the operand of a collective in place of its
    // result.
    Program wrong = right;
    const int32_t from = wrong.code[i].in[0], to = wrong.code[i].out;
    wrong.code.erase(wrong.code.begin() + static_cast<int64_t>(i));
    for (Instruction& step : wrong.code) {
      for (int32_t& slot : step.in) {
        if (slot == to) slot = from;
      }
    }
    for (int32_t& slot : wrong.result) {
      if (slot == to) slot = from;
    }
    CHECK_FALSE(Validate(mlp.make.graph, wrong, mlp.make.sizes).empty());
    // Another kind of collective must be detected too.
    wrong = right;
    wrong.code[i].collective =
        right.code[i].collective == Collective::kAllReduce
            ? Collective::kAllGather
            : Collective::kAllReduce;
    CHECK_FALSE(Validate(mlp.make.graph, wrong, mlp.make.sizes).empty());
  }
  CHECK(collectives > 8);
}

TEST_CASE("an op that splits a dimension keeps its axes in their place") {
  GraphMaker make;
  const LabelId b = make.Label("b", 4, "BATCH");
  const LabelId n = make.Label("n", 8, "HEAD");
  const LabelId h = make.Label("h", 4, "HEAD_DIM");
  const LabelId nh = make.Label("n h", 32, "", {n, h});
  const ValueId x = make.Data({b, nh}, "resid", false);
  make.Add({.kind = OpKind::kSplit,
            .in = {x},
            .constraint = "q",
            .attributes = LabelAttributes{nh}},
           {b, n, h});
  const Program right = LoweredOn(make, {{"tp", 2}}, {});
  CHECK(Validate(make.graph, right, make.sizes).empty());
  Program wrong = right;
  size_t splits = 0;
  for (const Instruction& step : right.code) {
    if (step.kind != InstructionKind::kLocal) continue;
    ++splits;
    Sharding& sharding = wrong.slots[AsIndex(step.out)].sharding;
    sharding.dims[0].push_back(0);
    sharding.dims[1] = {};
  }
  CHECK(splits == 1);
  const std::vector<ProgramFault> faults =
      Validate(make.graph, wrong, make.sizes);
  REQUIRE(!faults.empty());
  CHECK(faults[0].message == "the op does not give this layout");
}

TEST_CASE("a sum is not reduced twice") {
  const Mlp mlp;
  Program wrong = OnMesh(mlp);
  for (size_t i = 0; i < wrong.code.size(); ++i) {
    if (wrong.code[i].kind != InstructionKind::kCollective ||
        wrong.code[i].collective != Collective::kAllReduce) {
      continue;
    }
    Instruction twice = wrong.code[i];
    twice.in = {twice.out};
    wrong.slots.push_back(wrong.slots[AsIndex(twice.out)]);
    twice.out = static_cast<int32_t>(wrong.slots.size() - 1);
    wrong.code.insert(wrong.code.begin() + static_cast<int64_t>(i) + 1, twice);
    break;
  }
  const std::vector<ProgramFault> faults =
      Validate(mlp.make.graph, wrong, mlp.make.sizes);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].message ==
        "a value is reduced over an axis over which it is not partial");
}

}  // namespace
}  // namespace shardc::step
