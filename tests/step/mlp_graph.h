// An MLP with its backward pass, and usual sharding constraints, for tests.
#ifndef SHARDC_TESTS_STEP_MLP_GRAPH_H_
#define SHARDC_TESTS_STEP_MLP_GRAPH_H_

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/mesh.h"
#include "step/constraints.h"
#include "step/graph_maker.h"
#include "step/lower.h"

namespace shardc::step {

using AxisSizes = std::vector<std::pair<std::string, int64_t>>;

inline Mesh MeshNamed(const AxisSizes& axes) {
  Mesh mesh;
  for (const auto& [name, size] : axes) {
    mesh.axes.push_back({name, size, AxisType::kAuto});
    mesh.devices *= size;
  }
  return mesh;
}

// Shards the batch over fsdp and dp, heads and the MLP over tp, and the
// sequence over sp.
inline ShardingConstraints UsualConstraints() {
  ShardingConstraints out;
  const auto set = [&](std::string_view token, AxisGroup axes) {
    for (size_t i = 0; i < kConstraintAxes.size(); ++i) {
      if (kConstraintAxes[i] == token) out.by_axis[i] = std::move(axes);
    }
  };
  set("BATCH", {"fsdp", "dp"});
  set("QUERY_LENGTH", {"sp"});
  set("KV_LENGTH", {"sp"});
  set("HEAD", {"tp"});
  set("KV_HEAD", {"tp"});
  set("MLP_INTERMEDIATE", {"tp"});
  set("VOCAB", {"tp"});
  set("EXPERT", {"ep"});
  out.data = {"fsdp", "dp", "sp"};
  return out;
}

// Returns the program of a graph on a mesh, with the usual constraints.
inline Program LoweredOn(const GraphMaker& make, const AxisSizes& axes,
                         std::vector<Spec> parameters) {
  const LowerRequest request{.graph = &make.graph,
                             .mesh = MeshNamed(axes),
                             .sizes = make.sizes,
                             .parameters = std::move(parameters),
                             .constraints = UsualConstraints()};
  Unsupported why;
  std::optional<Program> program = Lower(request, why);
  REQUIRE_MESSAGE(program.has_value(), why.message);
  return *program;
}

// An MLP between two residual sums, with the backward ops of reverse-mode
// differentiation.
struct Mlp {
  GraphMaker make;
  LabelId b = make.Label("b", 8, "BATCH");
  LabelId t = make.Label("t", 16, "QUERY_LENGTH");
  LabelId d = make.Label("d", 32, "EMBED");
  LabelId f = make.Label("f", 64, "MLP_INTERMEDIATE");

  Mlp() {
    const ValueId x = make.Data({b, t, d}, "resid", false);
    const ValueId w1 = make.Parameter("up", {f, d});
    const ValueId w2 = make.Parameter("down", {d, f});
    const ValueId y = make.Fn("tanh", {x}, {b, t, d}, "normed");
    const ValueId z = make.Einsum(y, w1, {b, t, f}, "mlp");
    const ValueId m = make.Fn("silu", {z}, {b, t, f});
    const ValueId o = make.Einsum(m, w2, {b, t, d});
    make.Sum({x, o}, {b, t, d}, "resid");
    make.phase = Phase::kBackward;
    const ValueId g = make.Data({b, t, d}, "resid", false);
    const ValueId dm = make.Einsum(g, w2, {b, t, f});
    const ValueId dw2 = make.Einsum(m, g, {d, f});
    const ValueId slope = make.Fn("silu_d", {z}, {b, t, f});
    const ValueId dz = make.Einsum(dm, slope, {b, t, f}, "mlp");
    const ValueId dw1 = make.Einsum(y, dz, {f, d});
    const ValueId dy = make.Einsum(dz, w1, {b, t, d}, "normed");
    const ValueId dx = make.Fn("tanh", {dy}, {b, t, d});
    make.Sum({g, dx}, {b, t, d}, "resid");
    make.graph.gradients = {dw1, dw2};
  }
};

}  // namespace shardc::step

#endif  // SHARDC_TESTS_STEP_MLP_GRAPH_H_
