#include "comm/reshard.h"
#include "comm/joint_mesh.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "comm/joint_mesh.h"
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

TEST_CASE("the order of axes does not change how a dimension is split") {
  const Mesh mesh = MeshOf({{"a", 2}, {"b", 1}, {"c", 2}});
  CHECK(SplitAlike(mesh, AxisGroup{"a", "c"}, AxisGroup{"c", "b", "a"}));
  CHECK_FALSE(SplitAlike(mesh, AxisGroup{"a", "c"}, AxisGroup{"a"}));
  CHECK(SplitAlike(mesh, Spec{{"a"}}, Spec{{"a"}, {}, {"b"}}));
  CHECK(SplitAlike(mesh, Spec{{"a"}, {"b"}}, Spec{{"a"}}));
  CHECK_FALSE(SplitAlike(mesh, Spec{{"a"}}, Spec{{}, {"a"}}));
  CHECK_FALSE(SplitAlike(mesh, Spec{{"a"}}, Spec{{"a"}, {"c"}}));
}

TEST_CASE("the collective follows from how the axes change") {
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

TEST_CASE("slicing a held block, and axes of size one, move nothing") {
  const Mesh mesh = MeshOf({{"x", 4}, {"y", 4}, {"one", 1}});
  CHECK_FALSE(ClassifyMove(mesh, {}, {{"x"}}));
  CHECK_FALSE(ClassifyMove(mesh, {{"x"}}, {{"x", "y"}}));
  CHECK_FALSE(ClassifyMove(mesh, {{"x"}}, {{"x"}}));
  CHECK_FALSE(ClassifyMove(mesh, {{"one", "x"}}, {{"x"}, {"one"}}));
}

// A device's slice of a dimension, [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
};

Range RangeOf(const Mesh& mesh, const std::vector<int64_t>& at, int64_t size,
              const AxisGroup& axes) {
  const int64_t length = size / mesh.Parts(axes).value_or(1);
  const int64_t begin = IndexAlong(mesh, at, axes) * length;
  return {begin, begin + length};
}

// Returns the elements that all devices together lack when a tensor changes
// from one legal spec to another: those of each device's new block outside of
// its old block.
int64_t ElementsLacked(const Mesh& mesh, const Shape& shape, const Spec& from,
                       const Spec& to) {
  int64_t lacked = 0;
  for (int64_t device = 0; device < mesh.devices; ++device) {
    const std::vector<int64_t> at = CoordinatesOf(mesh, device);
    int64_t wanted = 1, held = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Range source = RangeOf(mesh, at, shape[d], AxesAt(from, d));
      const Range target = RangeOf(mesh, at, shape[d], AxesAt(to, d));
      wanted *= target.end - target.begin;
      held *= std::max<int64_t>(0, std::min(source.end, target.end) -
                                       std::max(source.begin, target.begin));
    }
    lacked += wanted - held;
  }
  return lacked;
}

TEST_CASE("the elements that devices lack, computed by hand") {
  const Mesh mesh = MeshOf({{"x", 2}, {"y", 2}});
  const Shape shape = {8, 8};
  // Each of four devices lacks the other half, 32 elements.
  CHECK(ElementsLacked(mesh, shape, {{"x"}}, {}) == 4 * 32);
  CHECK(ElementsLacked(mesh, shape, {}, {{"x"}}) == 0);
  // Each device holds 4 x 4 elements and needs 2 x 8, of which it has 2 x 4.
  CHECK(ElementsLacked(mesh, shape, {{"x"}, {"y"}}, {{"x", "y"}}) == 4 * 8);
  // If the order of two axes changes, devices 1 and 2 exchange their shards.
  CHECK(ElementsLacked(mesh, shape, {{"x", "y"}}, {{"y", "x"}}) == 2 * 16);
}

// For every pair of specs of two dimensions over two axes, ClassifyMove returns
// a collective if and only if some device lacks elements.
TEST_CASE("a collective is returned exactly if a device lacks elements") {
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
      const bool lacked = ElementsLacked(mesh, {6, 6}, from, to) > 0;
      CHECK(ClassifyMove(mesh, from, to).has_value() == lacked);
      moves += lacked;
    }
  }
  CHECK(moves > 60);
}

int64_t Sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

TEST_CASE("the elements that devices send are those that devices lack") {
  const Mesh mesh = MeshOf({{"x", 2}, {"y", 3}});
  const std::vector<Spec> specs = {
      {{}, {}},       {{"x"}, {}},      {{"y"}, {}},     {{"x"}, {"y"}},
      {{"y"}, {"x"}}, {{"x", "y"}, {}}, {{}, {"y", "x"}}};
  for (const Spec& from : specs) {
    for (const Spec& to : specs) {
      CAPTURE(SpecText(from));
      CAPTURE(SpecText(to));
      CHECK(Sum(SentElements(mesh, {6, 12}, from, to)) ==
            ElementsLacked(mesh, {6, 12}, from, to));
    }
  }
  CHECK(Sum(SentElements(mesh, {0, 6}, {{"x"}, {}}, {})) == 0);
}

TEST_CASE("two meshes over the same devices have a joint mesh") {
  const Mesh before = MeshOf({{"dp", 2}, {"one", 1}, {"fsdp", 4}, {"tp", 2}});
  const Mesh after = MeshOf({{"fsdp", 8}, {"tp", 2}});
  const auto joint = JointMesh::Of(before, after);
  REQUIRE(joint);
  CHECK(MeshText(joint->mesh()) == "0=2 1=4 2=2");
  CHECK(joint->OfBefore({{"fsdp", "tp"}, {"one"}}) == Spec{{"1", "2"}, {}});
  CHECK(joint->OfAfter({{}, {"fsdp"}}) == Spec{{}, {"0", "1"}});
  CHECK(joint->NamesBefore({"1", "0"}) == AxisGroup{"dp", "fsdp"});
  CHECK_FALSE(JointMesh::Of(before, MeshOf({{"fsdp", 16}, {"tp", 2}})));
  CHECK_FALSE(JointMesh::Of(MeshOf({{"a", 2}, {"b", 6}}),
                            MeshOf({{"c", 3}, {"d", 4}})));
}

TEST_CASE("a move between two meshes is the move on their joint mesh") {
  const Mesh before = MeshOf({{"dp", 2}, {"fsdp", 4}, {"tp", 2}});
  const Mesh after = MeshOf({{"fsdp", 8}, {"tp", 2}});
  const auto joint = JointMesh::Of(before, after);
  REQUIRE(joint);
  const std::vector<Spec> specs = {
      {{}, {}}, {{"fsdp"}, {}}, {{"fsdp"}, {"tp"}}, {{"tp"}, {"fsdp"}}};
  for (const Spec& from : specs) {
    for (const Spec& to : specs) {
      CAPTURE(SpecText(from));
      CAPTURE(SpecText(to));
      const Spec a = joint->OfBefore(from), b = joint->OfAfter(to);
      const auto sent = SentElements(before, after, {16, 32}, from, to);
      CHECK(sent == SentElements(joint->mesh(), {16, 32}, a, b));
      CHECK(ClassifyMove(joint->mesh(), a, b).has_value() == (Sum(sent) > 0));
    }
  }
  // Device 2 (4 d + f) + t holds rows 4 f to 4 f + 3, and needs rows 2 (4 d +
  // f) and 2 (4 d + f) + 1. Only those with (d, f) = (0, 0) or (1, 3) have
  // them.
  const auto sent =
      SentElements(before, after, {16, 1}, {{"fsdp"}, {}}, {{"fsdp"}, {}});
  CHECK(Sum(sent) == 6 * 2 * 2);
}

}  // namespace
}  // namespace shardc
