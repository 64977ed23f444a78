// The memory that a proof is stated to need, which decides whether `verify step
// --full` is refused.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "exec/machine/mesh_fixture.h"
#include "step/lower.h"
#include "step/mlp_graph.h"
#include "verify/step/prove.h"

namespace shardc::verify {
namespace {

step::Program LoweredOn(const step::GraphMaker& make, const Mesh& mesh) {
  const step::LowerRequest request{.graph = &make.graph,
                                   .mesh = mesh,
                                   .sizes = make.sizes,
                                   .parameters = {},
                                   .constraints = step::UsualConstraints()};
  step::Unsupported why;
  auto program = step::Lower(request, why);
  REQUIRE_MESSAGE(program.has_value(), why.message);
  return *program;
}

// A chain of `length` functions of x [8, 4, 16], each 4096 bytes in float64.
step::GraphMaker ChainOf(int length) {
  step::GraphMaker make;
  const step::LabelId b = make.Label("b", 8, "BATCH");
  const step::LabelId t = make.Label("t", 4, "QUERY_LENGTH");
  const step::LabelId d = make.Label("d", 16, "EMBED");
  step::ValueId last = make.Data({b, t, d}, "resid", false);
  make.graph.common.query = t;
  make.graph.data.push_back({.kind = step::DataKind::kPatches, .value = last});
  for (int i = 0; i < length; ++i) {
    last = make.Fn("tanh", {last}, {b, t, d}, "resid");
  }
  make.graph.logits = last;
  return make;
}

TEST_CASE("a proof needs the reference and the values of one moment") {
  constexpr int64_t kValue = 8 * 4 * 16 * 8;
  const exec::SimMesh mesh = exec::SimMeshOf({{"dp", 4}});
  const exec::SimMesh one = exec::SimMeshOf({{"one", 1}});
  const struct {
    int length;
    Dtype dtype;
    int64_t bytes;
  } cases[] = {
      // The values of the reference, the input of the devices, and while a slot
      // is compared: the operand and the result of the instruction, a copy of
      // the slot, two of its reference, and the result on the devices while the
      // step runs on one device.
      {6, Dtype::kF64, 7 * kValue + kValue + (2 + 1 + 2 + 1) * kValue},
      {60, Dtype::kF64, 61 * kValue + kValue + (2 + 1 + 2 + 1) * kValue},
      // Values of four bytes. The step runs on one device before it runs on
      // the devices.
      {6, Dtype::kF32,
       7 * kValue + kValue / 2 + kValue + kValue / 2 + 2 * kValue},
  };
  for (const auto& one_case : cases) {
    CAPTURE(one_case.length);
    const step::GraphMaker make = ChainOf(one_case.length);
    const step::Program program = LoweredOn(make, mesh.mesh());
    const step::Program alone = LoweredOn(make, one.mesh());
    const StepCase test{.graph = &make.graph,
                        .program = &program,
                        .alone = &alone,
                        .mesh = mesh.mesh(),
                        .sizes = make.sizes,
                        .dtype = one_case.dtype,
                        .more_sets = 0,
                        .seams = {},
                        .run = nullptr};
    CHECK(ProofBytes(test) == one_case.bytes);
    CHECK(ProveStep(test).Holds());
  }
}

TEST_CASE("a proof whose values are read at the end needs all of them") {
  constexpr int64_t kValue = 8 * 4 * 16 * 8;
  const exec::SimMesh mesh = exec::SimMeshOf({{"dp", 4}});
  for (const int length : {6, 60}) {
    const step::GraphMaker make = ChainOf(length);
    const step::Program program = LoweredOn(make, mesh.mesh());
    StepCase test{.graph = &make.graph,
                  .program = &program,
                  .mesh = mesh.mesh(),
                  .sizes = make.sizes,
                  .more_sets = 0,
                  .seams = {},
                  .run = nullptr};
    test.watch = [](const exec::StepRun&, const exec::Ledger&) {};
    const int64_t values = length + 1;
    CHECK(ProofBytes(test) == 2 * values * kValue + kValue + 3 * kValue);
  }
}

}  // namespace
}  // namespace shardc::verify
