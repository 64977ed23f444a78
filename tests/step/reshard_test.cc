#include "source/size.h"
#include "step/lower.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace shardc::step {
namespace {

constexpr AxisId kA = 0, kB = 1, kC = 2;

AxisList List(const std::vector<AxisId>& axes) {
  AxisList out;
  for (AxisId axis : axes) out.push_back(axis);
  return out;
}

Sharding Lay(const std::vector<std::vector<AxisId>>& dims,
             const std::vector<AxisId>& partial = {}) {
  Sharding out;
  out.rank = static_cast<uint8_t>(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) out.dims[d] = List(dims[d]);
  out.partial = List(partial).set();
  return out;
}

// Returns the steps of a reshard as text, such as `all_gather ab 0, slice c 1`.
std::string Text(const Sharding& from, const Sharding& to) {
  std::string out;
  for (const ReshardStep& step : PlanReshard(from, to)) {
    if (!out.empty()) out += ", ";
    out += step.kind == InstructionKind::kSlice
               ? "slice"
               : std::string(CollectiveName(step.collective));
    out += ' ';
    for (AxisId axis : step.axes) out += static_cast<char>('a' + axis);
    out += ' ' + std::to_string(step.dim);
    if (step.collective == Collective::kAllToAll) {
      out += '<' + std::to_string(step.other);
    }
  }
  return out;
}

TEST_CASE("steps between layouts") {
  struct Row {
    Sharding from, to;
    const char* want;
  };
  const Row rows[] = {
      {Lay({{kA}, {}}), Lay({{kA}, {}}), ""},
      {Lay({{}, {}}), Lay({{kA, kB}, {}}), "slice ab 0"},
      {Lay({{kA}, {}}), Lay({{kA, kB}, {kC}}), "slice b 0, slice c 1"},
      {Lay({{}, {}}, {kA}), Lay({{kA}, {}}), "reduce_scatter a 0"},
      {Lay({{}, {}}, {kA, kB}), Lay({{kA, kB}, {}}), "reduce_scatter ab 0"},
      {Lay({{}, {}}, {kA, kB}), Lay({{kA}, {}}),
       "reduce_scatter a 0, all_reduce b 0"},
      {Lay({{}, {}}, {kA, kB}), Lay({{}, {}}, {kB}), "all_reduce a 0"},
      {Lay({{kA}, {}}), Lay({{}, {kA}}), "all_to_all a 1<0"},
      {Lay({{kB, kA}, {}}), Lay({{kB}, {kA}}), "all_to_all a 1<0"},
      {Lay({{kA, kB}, {}}), Lay({{}, {}}), "all_gather ab 0"},
      {Lay({{kA, kB}, {}}), Lay({{kA}, {}}), "all_gather b 0"},
      {Lay({{kA, kB}, {}}), Lay({{kB, kA}, {}}), "ppermute ab 0"},
      // `a` is not the minor axis of its dimension: `b` follows it and must be
      // gathered first.
      {Lay({{kA, kB}, {}}), Lay({{}, {kA}}),
       "all_gather b 0, all_to_all a 1<0"},
      // Two axes exchange their dimensions, so one of them must be gathered.
      {Lay({{kA}, {kB}}), Lay({{kB}, {kA}}),
       "all_gather a 0, all_to_all b 0<1, slice a 1"},
      // Steps that make shards smaller come before steps that send them.
      {Lay({{kA}, {}}, {kB}), Lay({{}, {kC}}),
       "slice c 1, all_reduce b 0, all_gather a 0"},
      // From a sharded batch to a sharded hidden dimension, while a partial
      // value is reduced.
      {Lay({{kA, kB}, {}}, {kC}), Lay({{kA}, {kB, kC}}),
       "all_to_all b 1<0, reduce_scatter c 1"},
  };
  for (const Row& row : rows) CHECK(Text(row.from, row.to) == row.want);
}

TEST_CASE("any two layouts have a way between them") {
  // All shardings of two dimensions over three axes: each axis shards a
  // dimension, in every order, or the value is partial over it, or it is
  // unused.
  std::vector<Sharding> all;
  const std::vector<std::vector<AxisId>> orders = {{kA, kB, kC}, {kA, kC, kB},
                                                   {kB, kA, kC}, {kB, kC, kA},
                                                   {kC, kA, kB}, {kC, kB, kA}};
  for (const auto& order : orders) {
    for (int code = 0; code < 64; ++code) {
      Sharding sharding = Lay({{}, {}});
      for (size_t i = 0; i < 3; ++i) {
        const int where = code >> (2 * i) & 3;
        if (where < 2) sharding.dims[AsIndex(where)].push_back(order[i]);
        if (where == 2) sharding.partial |= Bit(order[i]);
      }
      if (std::find(all.begin(), all.end(), sharding) == all.end()) {
        all.push_back(sharding);
      }
    }
  }
  const Axes axes{{"a", "b", "c"}, {2, 3, 5}};
  const Value value{.labels = {0, 1}};
  for (const Sharding& from : all) {
    for (const Sharding& to : all) {
      if ((to.partial & ~from.partial) != 0) continue;
      const std::vector<ReshardStep> steps = PlanReshard(from, to);
      CHECK((steps.empty() ? from : steps.back().after) == to);
      const ReshardCost cost = CostOf(steps, axes, value, from, {60, 60}, 2);
      CHECK(cost.bytes >= 0);
      CHECK((cost.collectives == 0) == (cost.bytes == 0));
    }
  }
}

}  // namespace
}  // namespace shardc::step
