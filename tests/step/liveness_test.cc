#include "source/size.h"
#include "step/program.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "step/mlp_graph.h"

namespace shardc::step {
namespace {

// A model of 4 rows with 8 elements, and 16 elements in between.
struct Small {
  GraphMaker make;
  LabelId b = make.Label("b", 4, "BATCH");
  LabelId d = make.Label("d", 8, "EMBED");
  LabelId f = make.Label("f", 16, "MLP_INTERMEDIATE");

  Small() {
    const ValueId x = make.Data({b, d}, "resid", false);
    make.graph.data.push_back({DataKind::kWeights, x});
    const ValueId w1 = make.Parameter("up", {d, f});
    const ValueId w2 = make.Parameter("down", {f, d});
    const ValueId z = make.Einsum(x, w1, {b, f});
    const ValueId m = make.Fn("tanh", {z}, {b, f});
    const ValueId o = make.Einsum(m, w2, {b, d});
    const ValueId r = make.Einsum(z, m, {b, f});
    const ValueId q = make.Einsum(r, w2, {b, d});
    make.graph.logits = make.Sum({o, q}, {b, d});
  }
};

std::vector<int64_t> Totals(const GraphMaker& make, const Program& program) {
  std::vector<int64_t> out;
  for (const HeldBytes& held : HeldOver(make.graph, program, make.sizes, {})) {
    out.push_back(TotalOf(held));
  }
  return out;
}

TEST_CASE("held on one device, counted by hand") {
  const Small small;
  const Program program = LoweredOn(small.make, {{"tp", 1}}, {});
  // Bytes held: x (64) and both weights (512 together) from the start; then z
  // (128), m (128) and o (64) are added, and r is stored in z's buffer; z and m
  // are dropped and q (64) is added; their sum is stored in o's buffer.
  CHECK(Totals(small.make, program) ==
        std::vector<int64_t>{576, 576, 576, 704, 832, 896, 896, 832, 704});
  const PeakMemory peak =
      PeakOf(small.make.graph, program, small.make.sizes, {});
  CHECK(peak.instruction == 5);
  CHECK(peak.bytes[static_cast<size_t>(Held::kParameters)] == 512);
  CHECK(peak.bytes[static_cast<size_t>(Held::kInputs)] == 64);
  CHECK(peak.bytes[static_cast<size_t>(Held::kActivations)] == 320);
}

TEST_CASE("a gathered weight is held with its shard while it is read") {
  const Small small;
  const Program program =
      LoweredOn(small.make, {{"fsdp", 2}}, {{{"fsdp"}, {}}, {{"fsdp"}, {}}});
  std::vector<int64_t> gathered;
  for (const HeldBytes& held :
       HeldOver(small.make.graph, program, small.make.sizes, {})) {
    gathered.push_back(held[static_cast<size_t>(Held::kGathered)]);
  }
  // The bytes of gathered weights at each instruction: x, up, down, the gather
  // of up, z, m, the gather of down, o, r, q and their sum.
  CHECK(gathered ==
        std::vector<int64_t>{0, 0, 0, 256, 256, 0, 256, 256, 256, 256, 0});
}

TEST_CASE("updates take the place of what they update") {
  GraphMaker make;
  const LabelId d = make.Label("d", 8);
  const ValueId p = make.Parameter("w", {d});
  make.phase = Phase::kBackward;
  const ValueId g = make.Fn("tanh", {p}, {d});
  make.graph.gradients = {g};
  make.phase = Phase::kOptimizer;
  const ValueId m = make.Data({d}, "", false), v = make.Data({d}, "", false);
  const ValueId clip = make.Fn("one", {g}, {d});
  make.graph.moments = {{m, v}};
  std::vector<ValueId> made;
  for (const AdamWResult result :
       {AdamWResult::kParameter, AdamWResult::kFirstMoment,
        AdamWResult::kSecondMoment}) {
    made.push_back(make.Add({.kind = OpKind::kAdamW,
                             .in = {p, g, m, v, clip},
                             .attributes = AdamWAttributes{.result = result}},
                            {d}));
  }
  make.graph.updated = {made[0]};
  make.graph.updated_moments = {{made[1], made[2]}};
  const Program program = LoweredOn(make, {{"tp", 1}}, {});
  // The parameter has 16 bytes, the moments have 32 each, the gradient and the
  // clip factors 16 each.
  CHECK(Totals(make, program) ==
        std::vector<int64_t>{80, 96, 96, 96, 112, 112, 112, 112});
  // A parameter that is stored in 4 bytes takes them, also where the step reads
  // it in 2.
  make.graph.values[static_cast<size_t>(made[0])].bytes = 4;
  CHECK(Totals(make, program) ==
        std::vector<int64_t>{96, 112, 112, 112, 128, 128, 128, 128});
}

}  // namespace
}  // namespace shardc::step
