#include "step/program.h"

#include <doctest/doctest.h>

#include <optional>
#include <utility>
#include <vector>

#include "source/size.h"
#include "step/mlp_graph.h"

namespace shardc::step {
namespace {

// Returns the floating-point operations of each op except inputs, in the order
// of the program.
std::vector<double> FlopsOnDevice(const GraphMaker& make,
                                  const Program& program) {
  std::vector<double> out;
  for (const Instruction& one : program.code) {
    const double flops = FlopsOf(make.graph, program, one, make.sizes);
    if (one.kind == InstructionKind::kLocal) {
      out.push_back(flops);
    } else {
      CHECK(flops == 0);
    }
  }
  return out;
}

TEST_CASE("a product counts the shard of each label, the summed ones too") {
  GraphMaker make;
  const LabelId b = make.Label("b", 4, "BATCH");
  const LabelId d = make.Label("d", 8, "EMBED");
  const LabelId f = make.Label("f", 16, "MLP_INTERMEDIATE");
  const ValueId x = make.Data({b, d}, "resid", false);
  const ValueId up = make.Parameter("up", {d, f});
  const ValueId down = make.Parameter("down", {f, d});
  const ValueId inner = make.Fn("tanh", {make.Einsum(x, up, {b, f})}, {b, f});
  make.graph.logits = make.Sum({make.Einsum(inner, down, {b, d}), x}, {b, d});
  CHECK(FlopsOnDevice(make, LoweredOn(make, {{"tp", 1}}, {})) ==
        std::vector<double>{2 * 4 * 8 * 16, 4 * 16, 2 * 4 * 16 * 8, 4 * 8});
  // f and b are each sharded over 2 devices; the elements of d for the residual
  // sum are unsharded.
  const Program program =
      LoweredOn(make, {{"dp", 2}, {"tp", 2}}, {{{}, {"tp"}}, {{"tp"}, {}}});
  CHECK(FlopsOnDevice(make, program) ==
        std::vector<double>{2 * 2 * 8 * 8, 2 * 8, 2 * 2 * 8 * 8, 2 * 8});
}

TEST_CASE("each kind of op counts by its record") {
  GraphMaker make;
  const LabelId b = make.Label("b", 4, "BATCH");
  const LabelId t = make.Label("t", 8);
  const LabelId e = make.Label("e", 2);
  const LabelId c = make.Label("c", 3);
  const LabelId d = make.Label("d", 5);
  make.graph.common.query = t;
  make.graph.common.slot = c;
  const ValueId x = make.Data({b, t, d}, "", false);
  const ValueId queue = make.Data({b, t, e, c}, "", false);
  const auto one = [&](OpKind kind, std::vector<ValueId> in,
                       OpAttributes attributes, std::vector<LabelId> labels) {
    make.Add({.kind = kind, .in = std::move(in), .attributes = attributes},
             std::move(labels));
  };
  one(OpKind::kEinsum, {x, x}, {}, {b, t, d});  // elementwise
  one(OpKind::kEinsum, {x, x}, {}, {b, t});
  one(OpKind::kEinsum, {queue, x}, {}, {b, e, c, d});  // a token a slot
  one(OpKind::kScale, {x}, ScaleAttributes{}, {b, t, d});
  one(OpKind::kAdd, {x, x, x}, {}, {b, t, d});
  one(OpKind::kSum, {x}, LabelAttributes{d}, {b, t});
  one(OpKind::kMax, {x}, LabelAttributes{t}, {b, d});
  one(OpKind::kRope, {x, x}, RopeAttributes{.label = d}, {b, t, d});
  one(OpKind::kMask, {x, x, x}, MaskAttributes{}, {b, t, d});
  one(OpKind::kMask, {x, x, x}, MaskAttributes{.heads = t}, {b, t, d});
  one(OpKind::kIdentity, {x}, {}, {b, t, d});
  one(OpKind::kDropout, {x}, DropoutAttributes{}, {b, t, d});
  one(OpKind::kAdamW, {x, x, x, x, x}, AdamWAttributes{}, {b, t, d});
  one(OpKind::kAdamW, {x, x, x, x, x},
      AdamWAttributes{.result = AdamWResult::kSecondMoment}, {b, t, d});
  const double all = 4 * 8 * 5;
  CHECK(FlopsOnDevice(make, LoweredOn(make, {{"tp", 1}}, {})) ==
        std::vector<double>{all, 2 * all, 4 * 2 * 3 * 5, all, 2 * all, all, all,
                            3 * all, 0, 2 * all, 0, all, 9 * all, 4 * all});
}

TEST_CASE("a product that sums a dimension is a matmul") {
  GraphMaker make;
  const LabelId b = make.Label("b", 4, "BATCH");
  const LabelId d = make.Label("d", 8, "EMBED");
  const ValueId x = make.Data({b, d}, "", false);
  make.Einsum(x, x, {b, d});
  make.Einsum(x, x, {b});
  make.Fn("tanh", {x}, {b, d});
  const std::vector<Op>& ops = make.graph.ops;
  CHECK(!IsMatmul(make.graph, ops[1]));
  CHECK(IsMatmul(make.graph, ops[2]));
  CHECK(!IsMatmul(make.graph, ops[3]));
}

}  // namespace
}  // namespace shardc::step
