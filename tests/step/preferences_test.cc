#include "step/lower.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "step/mlp_graph.h"

namespace shardc::step {
namespace {

// y = merge(split(x)), with a sharding constraint on y only.
struct SplitAndMerge {
  GraphMaker make;
  LabelId b = make.Label("b", 4, "BATCH");
  LabelId n = make.Label("n", 8, "HEAD");
  LabelId h = make.Label("h", 4, "HEAD_DIM");
  LabelId nh = make.Label("n h", 32, "", {n, h});
  ValueId x = make.Data({b, nh}, "", false);
  ValueId heads = make.Add(
      {.kind = OpKind::kSplit, .in = {x}, .attributes = LabelAttributes{nh}},
      {b, n, h});
  ValueId y = make.Add(
      {.kind = OpKind::kIdentity, .in = {heads}, .constraint = "q"}, {b, n, h});

  std::vector<PreferredSharding> Run() {
    const LowerRequest request{.graph = &make.graph,
                               .mesh = MeshNamed({{"dp", 2}, {"tp", 2}}),
                               .sizes = make.sizes,
                               .constraints = UsualConstraints()};
    std::vector<std::string> notes;
    return PropagatePreferred(request, AxesOf(request.mesh), notes);
  }
};

std::string TextOf(const GraphMaker& make, ValueId value,
                   const PreferredSharding& of) {
  if (!of.sharding) return "none";
  return ShardingText(make.graph, AxesOf(MeshNamed({{"dp", 2}, {"tp", 2}})),
                      value, *of.sharding);
}

}  // namespace

TEST_CASE("a sharding constraint is the preference of the value it is on") {
  SplitAndMerge of;
  const auto preferred = of.Run();
  CHECK(TextOf(of.make, of.y, preferred[AsIndex(of.y)]) == "b:dp n:tp");
  CHECK(preferred[AsIndex(of.y)].constrained);
  // An identity changes the constraint, so it does not propagate a preference.
  CHECK(TextOf(of.make, of.heads, preferred[AsIndex(of.heads)]) == "none");
}

TEST_CASE("an operand with one consumer prefers what its consumer prefers") {
  SplitAndMerge of;
  of.make.graph.ops.back().constraint.clear();
  of.make.graph.ops[1].constraint = "q";
  const auto preferred = of.Run();
  CHECK(TextOf(of.make, of.x, preferred[AsIndex(of.x)]) == "b:dp n h:tp");
  CHECK(!preferred[AsIndex(of.x)].constrained);
}

TEST_CASE("an operand of two consumers has no preference") {
  SplitAndMerge of;
  of.make.graph.ops.back().constraint.clear();
  of.make.graph.ops[1].constraint = "q";
  of.make.Along(OpKind::kSum, of.x, of.nh, {of.b});
  const auto preferred = of.Run();
  CHECK(TextOf(of.make, of.x, preferred[AsIndex(of.x)]) == "none");
}

}  // namespace shardc::step
