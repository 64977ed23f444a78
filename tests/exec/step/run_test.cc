#include "exec/step/run.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/machine/mesh_fixture.h"
#include "exec/machine/random.h"
#include "step/lower.h"
#include "step/mlp_graph.h"

namespace shardc::exec {
namespace {

TEST_CASE("float64 travels as it is") {
  const SimMesh mesh = SimMeshOf({{"a", 2}, {"b", 3}});
  Machine machine(mesh);
  Buffer x = Buffer::Zeros({6}, Dtype::kF64);
  for (size_t i = 0; i < 6; ++i) x.wide[i] = 1.0 / (1.0 + double(i));
  const ShardedTensor cut = Scatter(mesh, x, {{"a", "b"}});
  const PerDevice whole = AllGather(machine, {"a", "b"}, cut.local, 0, "x");
  CHECK(BitEqual(whole[3], x));
  CHECK(machine.ledger().TotalSent() == 6 * 5 * 8);
  const PerDevice sum = AllReduce(machine, {"b"}, cut.local, Reduce::kSum, "x");
  CHECK(sum[0].wide[0] == 1.0 + 1.0 / 2 + 1.0 / 3);
  const PerDevice most =
      AllReduce(machine, {"b"}, cut.local, Reduce::kMax, "x");
  CHECK(most[5].wide[0] == 1.0 / 4);
}

StepInputs RandomInputs(const step::GraphMaker& make, Dtype dtype) {
  StepInputs out{.sizes = make.sizes, .dtype = dtype, .values = {}};
  out.values.resize(make.graph.values.size());
  for (const step::Op& op : make.graph.ops) {
    if (op.kind != step::OpKind::kInput) continue;
    Buffer& to = out.values[static_cast<size_t>(op.out)];
    to = Buffer::Zeros(step::ShapeOf(make.graph, op.out, make.sizes), dtype);
    const Random random = Random(7).Split(static_cast<uint64_t>(op.out));
    for (size_t i = 0; i < static_cast<size_t>(to.Elements()); ++i) {
      if (to.IsWide()) {
        to.wide[i] = random.Normal(i);
      } else {
        to.real[i] = static_cast<float>(random.Normal(i));
      }
    }
    RoundTo(to);
  }
  return out;
}

step::Program LoweredOn(const step::GraphMaker& make, const Mesh& mesh) {
  const step::LowerRequest request{
      .graph = &make.graph,
      .mesh = mesh,
      .sizes = make.sizes,
      .parameters = {{{"tp"}, {"fsdp"}}, {{"fsdp"}, {"tp"}}},
      .constraints = step::UsualConstraints()};
  step::Unsupported why;
  auto program = step::Lower(request, why);
  REQUIRE(program.has_value());
  return *program;
}

TEST_CASE("an MLP and its gradients on any mesh are one device's") {
  const step::Mlp mlp;
  const step::Graph& graph = mlp.make.graph;
  const StepInputs inputs = RandomInputs(mlp.make, Dtype::kF64);
  const SimMesh one = SimMeshOf({{"dp", 1}});
  Machine alone(one);
  const step::Program single = LoweredOn(mlp.make, one.mesh());
  const StepRun want =
      RunStep(alone, graph, single, inputs, KeepSlots::kResults);
  for (const SimMesh& mesh : {SimMeshOf({{"tp", 4}}), SimMeshOf({{"fsdp", 4}}),
                              SimMeshOf({{"dp", 2}, {"fsdp", 2}, {"tp", 2}}),
                              SimMeshOf({{"tp", 2}, {"sp", 4}, {"fsdp", 2}})}) {
    const step::Program program = LoweredOn(mlp.make, mesh.mesh());
    Machine machine(mesh, 2);
    const StepRun run =
        RunStep(machine, graph, program, inputs, KeepSlots::kAll);
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const int32_t slot = program.result[v], alike = single.result[v];
      if (want.slots[static_cast<size_t>(alike)].empty()) continue;
      const step::Slot& of = program.slots[static_cast<size_t>(slot)];
      if (of.sharding.partial != 0) continue;
      LayoutError why;
      const auto whole =
          Gather(mesh,
                 {.shape = step::ShapeOf(graph, of.value, inputs.sizes),
                  .dtype = Dtype::kF64,
                  .spec = step::SpecOf(program.axes, of.sharding),
                  .local = run.slots[static_cast<size_t>(slot)]},
                 why);
      REQUIRE_MESSAGE(whole.has_value(), why.message);
      const Buffer& right = want.slots[static_cast<size_t>(alike)][0];
      for (size_t i = 0; i < right.wide.size(); ++i) {
        CHECK(std::abs(whole->wide[i] - right.wide[i]) < 1e-11);
      }
    }
    // The ledger equals the prediction in every entry and on every device.
    size_t entry = 0;
    for (const step::Instruction& step : program.code) {
      if (step.kind != step::InstructionKind::kCollective) continue;
      REQUIRE(entry < machine.ledger().entries().size());
      CHECK(
          machine.ledger().entries()[entry++].sent ==
          PredictedSent(mesh, graph, program, step, inputs.sizes, Dtype::kF64));
    }
    CHECK(entry == machine.ledger().entries().size());
  }
}

TEST_CASE("each slot is passed on once before it is freed") {
  step::Mlp mlp;
  // An op that reads a slot twice.
  step::GraphMaker& make = mlp.make;
  const step::ValueId x = make.graph.ops.front().out;
  make.Einsum(x, x, {mlp.b, mlp.t, mlp.d}, "resid");
  const step::Graph& graph = make.graph;
  const StepInputs inputs = RandomInputs(make, Dtype::kF64);
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"fsdp", 2}, {"tp", 2}});
  const step::Program program = LoweredOn(make, mesh.mesh());
  Machine keeps(mesh);
  const StepRun all = RunStep(keeps, graph, program, inputs, KeepSlots::kAll);
  std::vector<int> freed(program.slots.size(), 0);
  Machine machine(mesh);
  const StepRun run =
      RunStep(machine, graph, program, inputs, KeepSlots::kResults,
              [&](int32_t slot, const PerDevice& local) {
                const PerDevice& want = all.slots[static_cast<size_t>(slot)];
                ++freed[static_cast<size_t>(slot)];
                REQUIRE(local.size() == want.size());
                for (size_t d = 0; d < want.size(); ++d) {
                  CHECK(BitEqual(local[d], want[d]));
                }
              });
  std::vector<bool> read(program.slots.size(), false);
  int64_t twice = 0;
  for (const step::Instruction& one : program.code) {
    for (const int32_t slot : one.in) read[static_cast<size_t>(slot)] = true;
    twice += one.in.size() == 2 && one.in[0] == one.in[1] ? 1 : 0;
  }
  CHECK(twice == 1);
  for (const step::ValueId value : graph.gradients) {
    read[static_cast<size_t>(program.result[static_cast<size_t>(value)])] =
        false;
  }
  for (size_t slot = 0; slot < program.slots.size(); ++slot) {
    CAPTURE(slot);
    CHECK(freed[slot] == (read[slot] ? 1 : 0));
    CHECK(run.slots[slot].empty() == read[slot]);
  }
}

TEST_CASE("a result that a later op reads is kept") {
  step::GraphMaker make;
  const step::LabelId b = make.Label("b", 8, "BATCH");
  const step::LabelId t = make.Label("t", 4, "QUERY_LENGTH");
  const step::LabelId d = make.Label("d", 16, "EMBED");
  const step::ValueId x = make.Data({b, t, d}, "resid", false);
  const step::ValueId y = make.Fn("tanh", {x}, {b, t, d}, "resid");
  const step::ValueId z = make.Fn("tanh", {y}, {b, t, d}, "resid");
  make.graph.logits = y;
  const StepInputs inputs = RandomInputs(make, Dtype::kF64);
  const SimMesh mesh = SimMeshOf({{"dp", 4}});
  const step::LowerRequest request{.graph = &make.graph,
                                   .mesh = mesh.mesh(),
                                   .sizes = make.sizes,
                                   .parameters = {},
                                   .constraints = step::UsualConstraints()};
  step::Unsupported why;
  const auto program = step::Lower(request, why);
  REQUIRE_MESSAGE(program.has_value(), why.message);
  std::vector<int32_t> freed;
  Machine machine(mesh);
  const StepRun run =
      RunStep(machine, make.graph, *program, inputs, KeepSlots::kResults,
              [&](int32_t slot, const PerDevice&) { freed.push_back(slot); });
  const auto slot_of = [&](step::ValueId value) {
    return program->result[static_cast<size_t>(value)];
  };
  CHECK(freed == std::vector<int32_t>{slot_of(x)});
  CHECK_FALSE(run.slots[static_cast<size_t>(slot_of(y))].empty());
  CHECK_FALSE(run.slots[static_cast<size_t>(slot_of(z))].empty());
}

}  // namespace
}  // namespace shardc::exec
