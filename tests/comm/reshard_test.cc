#include "comm/reshard.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/mesh_layout.h"

namespace shardc {
namespace {

Mesh MeshOf(const std::vector<std::pair<std::string, int64_t>>& axes) {
  Mesh mesh;
  for (const auto& [name, size] : axes) {
    mesh.axes.push_back({name, size, AxisType::kAuto});
    mesh.devices *= size;
  }
  return mesh;
}

TEST_CASE("prefixes ignore axes of size one") {
  const Mesh mesh = MeshOf({{"a", 2}, {"b", 1}, {"c", 2}});
  CHECK(DropTrivial(mesh, {"b", "c", "absent", "a"}) == AxisGroup{"c", "a"});
  CHECK(IsPrefix(mesh, {"b"}, {}));
  CHECK(IsPrefix(mesh, {"a"}, {"b", "a", "c"}));
  CHECK(IsPrefix(mesh, {"a", "b"}, {"a", "c"}));
  CHECK_FALSE(IsPrefix(mesh, {"c"}, {"a", "c"}));
  CHECK_FALSE(IsPrefix(mesh, {"a", "c"}, {"a"}));
}

TEST_CASE("splits are alike whatever the order of their axes") {
  const Mesh mesh = MeshOf({{"a", 2}, {"b", 1}, {"c", 2}});
  CHECK(SplitAlike(mesh, AxisGroup{"a", "c"}, AxisGroup{"c", "b", "a"}));
  CHECK_FALSE(SplitAlike(mesh, AxisGroup{"a", "c"}, AxisGroup{"a"}));
  CHECK(SplitAlike(mesh, Spec{{"a"}}, Spec{{"a"}, {}, {"b"}}));
  CHECK(SplitAlike(mesh, Spec{{"a"}, {"b"}}, Spec{{"a"}}));
  CHECK_FALSE(SplitAlike(mesh, Spec{{"a"}}, Spec{{}, {"a"}}));
  CHECK_FALSE(SplitAlike(mesh, Spec{{"a"}}, Spec{{"a"}, {"c"}}));
}

TEST_CASE("a move is named by what becomes of its axes") {
  const Mesh mesh = MeshOf({{"x", 4}, {"y", 4}, {"one", 1}});
  struct Case {
    Spec from, to;
    Collective kind;
    AxisGroup axes;
  };
  const std::vector<Case> cases = {
      {{{"x"}}, {}, Collective::kAllGather, {"x"}},
      {{{"x", "y"}}, {{"x"}}, Collective::kAllGather, {"y"}},
      {{{"x"}, {}}, {{}, {"y"}}, Collective::kAllGather, {"x", "y"}},
      {{{"x"}}, {{}, {"x"}}, Collective::kAllToAll, {"x"}},
      {{{"x"}, {"y"}}, {{"x", "y"}, {}}, Collective::kAllToAll, {"y"}},
      {{{"x", "y"}}, {{"y", "x"}}, Collective::kPpermute, {"x", "y"}},
      {{{"x"}}, {{"y"}}, Collective::kPpermute, {"x", "y"}},
  };
  for (const Case& c : cases) {
    CAPTURE(SpecText(c.from));
    CAPTURE(SpecText(c.to));
    const auto move = ClassifyMove(mesh, c.from, c.to);
    REQUIRE(move);
    CHECK(move->kind == c.kind);
    CHECK(move->axes == c.axes);
  }
}

TEST_CASE("cutting a slice, and axes of size one, are no move") {
  const Mesh mesh = MeshOf({{"x", 4}, {"y", 4}, {"one", 1}});
  CHECK_FALSE(ClassifyMove(mesh, {}, {{"x"}}));
  CHECK_FALSE(ClassifyMove(mesh, {{"x"}}, {{"x", "y"}}));
  CHECK_FALSE(ClassifyMove(mesh, {{"x"}}, {{"x"}}));
  CHECK_FALSE(ClassifyMove(mesh, {{"one", "x"}}, {{"x"}, {"one"}}));
}

TEST_CASE("elements that are lacked, by hand") {
  const Mesh mesh = MeshOf({{"x", 2}, {"y", 2}});
  const Shape shape = {8, 8};
  // Four devices lack the other half each.
  CHECK(MovedElements(mesh, shape, {{"x"}}, {}) == 4 * 32);
  CHECK(MovedElements(mesh, shape, {}, {{"x"}}) == 0);
  // Each holds 4 x 4, wants 2 x 8, and has 2 x 4 of it.
  CHECK(MovedElements(mesh, shape, {{"x"}, {"y"}}, {{"x", "y"}}) == 4 * 8);
  // Of the orders of two axes devices 1 and 2 change places.
  CHECK(MovedElements(mesh, shape, {{"x", "y"}}, {{"y", "x"}}) == 2 * 16);
}

// Every pair of specs of two dimensions over two axes: nothing is named where
// nothing is lacked, and the other way round.
TEST_CASE("a move is named exactly where elements are lacked") {
  const Mesh mesh = MeshOf({{"x", 2}, {"y", 3}});
  const std::vector<Spec> specs = {
      {{}, {}},         {{"x"}, {}},      {{"y"}, {}},     {{}, {"x"}},
      {{}, {"y"}},      {{"x"}, {"y"}},   {{"y"}, {"x"}},  {{"x", "y"}, {}},
      {{"y", "x"}, {}}, {{}, {"x", "y"}}, {{}, {"y", "x"}}};
  int moves = 0;
  for (const Spec& from : specs) {
    for (const Spec& to : specs) {
      CAPTURE(SpecText(from));
      CAPTURE(SpecText(to));
      const bool lacked = MovedElements(mesh, {6, 6}, from, to) > 0;
      CHECK(ClassifyMove(mesh, from, to).has_value() == lacked);
      moves += lacked;
    }
  }
  CHECK(moves > 60);
}

}  // namespace
}  // namespace shardc
