#include "step/graph_writer.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "step/graph_maker.h"

namespace shardc::step {
namespace {

TEST_CASE("the gradient of a square computes its operand again") {
  GraphMaker make;
  const LabelId t = make.Label("t", 4);
  const ValueId x = make.Parameter("x", {t});
  const ValueId y = make.Fn("silu", {x}, {t});
  make.graph.ops.back().recompute = true;
  make.graph.loss = make.Einsum(y, y, {});
  const auto forward = static_cast<ptrdiff_t>(make.graph.ops.size());
  Differentiate(make.graph);
  const auto& ops = make.graph.ops;
  REQUIRE(std::ssize(ops) > forward);
  CHECK(std::none_of(ops.begin() + forward, ops.end(), [&](const Op& op) {
    return std::find(op.in.begin(), op.in.end(), y) != op.in.end();
  }));
}

}  // namespace
}  // namespace shardc::step
