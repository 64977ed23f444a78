#include "comm/reshard.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
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

TEST_CASE("the order of axes does not change how a dimension is split") {
  const Mesh mesh = MeshOf({{"a", 2}, {"b", 1}, {"c", 2}});
  CHECK(SameSplit(mesh, AxisGroup{"a", "c"}, AxisGroup{"c", "b", "a"}));
  CHECK_FALSE(SameSplit(mesh, AxisGroup{"a", "c"}, AxisGroup{"a"}));
  CHECK(SameSplit(mesh, Spec{{"a"}}, Spec{{"a"}, {}, {"b"}}));
  CHECK(SameSplit(mesh, Spec{{"a"}, {"b"}}, Spec{{"a"}}));
  CHECK_FALSE(SameSplit(mesh, Spec{{"a"}}, Spec{{}, {"a"}}));
  CHECK_FALSE(SameSplit(mesh, Spec{{"a"}}, Spec{{"a"}, {"c"}}));
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

// The indices [begin, end) of a dimension that a device holds.
struct Range {
  int64_t begin = 0, end = 0;
};

// Divides the range by one axis after the other. Each device takes its share,
// rounded up, of what the axes before have left.
Range RangeOf(const Mesh& mesh, const std::vector<int64_t>& at, int64_t size,
              const AxisGroup& axes) {
  Range out{0, size};
  for (const std::string& axis : axes) {
    const auto found = mesh.Find(axis);
    if (!found) continue;
    const int64_t parts = mesh.axes[*found].size;
    const int64_t share = (out.end - out.begin + parts - 1) / parts;
    out.begin = std::min(out.end, out.begin + at[*found] * share);
    out.end = std::min(out.end, out.begin + share);
  }
  return out;
}

// Returns the number of elements that all devices together lack when a tensor
// changes from one spec to another: for each device, the elements of its
// new block that are not in its old block.
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
  // Each device has 4 x 4 elements and needs 2 x 8, of which it already has 2 x
  // 4.
  CHECK(ElementsLacked(mesh, shape, {{"x"}, {"y"}}, {{"x", "y"}}) == 4 * 8);
  // If the order of two axes changes, devices 1 and 2 exchange their shards.
  CHECK(ElementsLacked(mesh, shape, {{"x", "y"}}, {{"y", "x"}}) == 2 * 16);
}

// Compares all pairs of specs of two dimensions over two axes: ClassifyMove
// must return a collective if and only if some device lacks elements.
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

int64_t Product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         std::multiplies<>());
}

TEST_CASE("the elements that devices send are those that devices lack") {
  const Mesh mesh = MeshOf({{"x", 2}, {"y", 3}});
  const std::vector<Spec> specs = {
      {{}, {}},       {{"x"}, {}},      {{"y"}, {}},     {{"x"}, {"y"}},
      {{"y"}, {"x"}}, {{"x", "y"}, {}}, {{}, {"y", "x"}}};
  // The axes divide the first of the shapes.
  for (const Shape& shape :
       {Shape{6, 12}, Shape{7, 5}, Shape{1, 11}, Shape{4, 1}}) {
    for (const Spec& from : specs) {
      for (const Spec& to : specs) {
        CAPTURE(ShapeText(shape));
        CAPTURE(SpecText(from));
        CAPTURE(SpecText(to));
        CHECK(Sum(SentElements(mesh, shape, from, to)) ==
              ElementsLacked(mesh, shape, from, to));
      }
    }
  }
  CHECK(Sum(SentElements(mesh, {0, 6}, {{"x"}, {}}, {})) == 0);
}

// The shard over [x, y] is a part of the shard over [x], even if the axes do
// not divide the dimension.
TEST_CASE("appending an axis to an uneven dimension sends nothing") {
  const Mesh mesh = MeshOf({{"x", 2}, {"y", 4}});
  for (int64_t size = 0; size < 40; ++size) {
    CAPTURE(size);
    CHECK(Sum(SentElements(mesh, {size}, {{"x"}}, {{"x", "y"}})) == 0);
    CHECK(Sum(SentElements(mesh, {size}, {}, {{"y", "x"}})) == 0);
  }
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

TEST_CASE("every digit of a joint mesh has the sizes of both meshes") {
  const std::vector<std::vector<int64_t>> meshes = {
      {24}, {2, 12}, {12, 2}, {2, 3, 4}, {4, 3, 2}, {2, 2, 6}, {1, 24, 1}};
  const auto named = [](const std::vector<int64_t>& sizes) {
    std::vector<std::pair<std::string, int64_t>> axes;
    for (const int64_t size : sizes) {
      axes.emplace_back("a" + std::to_string(axes.size()), size);
    }
    return MeshOf(axes);
  };
  int joined = 0;
  for (const auto& a : meshes) {
    for (const auto& b : meshes) {
      const Mesh before = named(a), after = named(b);
      const auto joint = JointMesh::Of(before, after);
      if (!joint) continue;
      ++joined;
      CHECK(joint->mesh().devices == 24);
      CHECK(joint->mesh().axes.size() <= a.size() + b.size());
      const auto check = [&](const Mesh& mesh, bool first) {
        for (const MeshAxis& axis : mesh.axes) {
          CAPTURE(axis);
          const Spec own = {{axis.name}};
          const Spec found = first ? joint->OfBefore(own) : joint->OfAfter(own);
          CHECK(joint->mesh().Parts(found[0]) == axis.size);
          if (first && axis.size > 1) {
            CHECK(joint->NamesBefore(found[0]) == AxisGroup{axis.name});
          }
        }
      };
      check(before, true);
      check(after, false);
    }
  }
  // Meshes 2, 3, 4 and 4, 3, 2 have no joint mesh, and neither do 2, 3, 4 and
  // 2, 2, 6.
  CHECK(joined == 45);
  // With several slices, devices are not numbered in the order of the axes.
  Mesh slices = MeshOf({{"a", 2}, {"b", 2}});
  slices.slices = 2;
  slices.dcn = {2, 1};
  const Mesh plain = MeshOf({{"c", 4}});
  CHECK_FALSE(JointMesh::Of(slices, plain));
  CHECK_FALSE(JointMesh::Of(plain, slices));
  // An axis that the mesh lacks splits nothing.
  const auto joint = JointMesh::Of(plain, plain);
  REQUIRE(joint);
  CHECK(joint->OfBefore({{"absent", "c"}}) == Spec{{"0"}});
  CHECK(joint->NamesBefore({}) == AxisGroup{});
}

// Computes element by element what Overlaps computes by ranges of blocks: each
// element that a device needs and does not hold is sent by one device that
// holds it.
TEST_CASE("sent elements are those of a count of single elements") {
  const Mesh mesh = MeshOf({{"x", 2}, {"y", 3}, {"z", 2}});
  const Shape shape = {12, 12};
  const std::vector<AxisGroup> groups = {
      {}, {"x"}, {"y"}, {"z"}, {"x", "y"}, {"y", "x"}, {"z", "y"}};
  const auto holds = [&](const Spec& spec, int64_t device, size_t d,
                         int64_t at) {
    const int64_t length = shape[d] / *mesh.Parts(AxesAt(spec, d));
    return IndexAlong(mesh, CoordinatesOf(mesh, device), AxesAt(spec, d)) ==
           at / length;
  };
  int compared = 0;
  for (const AxisGroup& a : groups) {
    for (const AxisGroup& b : groups) {
      const Spec from = {a, {}}, to = {{}, b};
      int64_t lacked = 0;
      for (int64_t device = 0; device < mesh.devices; ++device) {
        for (int64_t i = 0; i < shape[0]; ++i) {
          for (int64_t j = 0; j < shape[1]; ++j) {
            const bool needs =
                holds(to, device, 0, i) && holds(to, device, 1, j);
            const bool has =
                holds(from, device, 0, i) && holds(from, device, 1, j);
            lacked += needs && !has;
          }
        }
      }
      CAPTURE(SpecText(from));
      CAPTURE(SpecText(to));
      CHECK(ElementsLacked(mesh, shape, from, to) == lacked);
      const auto sent = SentElements(mesh, shape, from, to);
      CHECK(Sum(sent) == lacked);
      // The holders of a block take turns, so the numbers that they send differ
      // by one block at most.
      const auto [least, most] = std::minmax_element(sent.begin(), sent.end());
      const int64_t block = Product(shape) / *mesh.Parts(a);
      CHECK(*most - *least <= block);
      ++compared;
    }
  }
  CHECK(compared == 49);
}

TEST_CASE("elements that do not fit 64 bits are INT64_MAX") {
  const Mesh mesh = MeshOf({{"x", 2}});
  const int64_t large = int64_t{1} << 62;
  CHECK(Sum(SentElements(mesh, {large}, {{"x"}}, {})) == large);
  const auto sent = SentElements(mesh, {large, 8}, {{"x"}}, {});
  CHECK(sent == std::vector<int64_t>{INT64_MAX, INT64_MAX});
  // Of fewer elements than shards, the first devices need one each. Here the
  // first device already has it.
  CHECK(SentElements(mesh, {1}, {}, {{"x"}}) == std::vector<int64_t>{0, 0});
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
