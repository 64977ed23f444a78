#include "model/mesh_layout.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace shardc {
namespace {

Mesh MeshOf(std::vector<MeshAxis> axes) {
  Mesh mesh;
  for (const MeshAxis& axis : axes) mesh.devices *= axis.size;
  mesh.axes = std::move(axes);
  return mesh;
}

TEST_CASE("a name of a factor has an axis, the factors before it and a size") {
  const auto sub = ParseSubAxis("tp:(8)2");
  REQUIRE(sub.has_value());
  CHECK(sub->axis == "tp");
  CHECK(sub->before == 8);
  CHECK(sub->size == 2);
  CHECK(SubAxisName("tp", 8, 2) == "tp:(8)2");
  CHECK(WholeAxis("tp:(8)2") == "tp");
  for (const char* other : {"tp", "tp:", "tp:(8)", "tp:()2", "tp:(0)2",
                            "tp:(8)2x", "tp:(8)-2", "tp:8(2)"}) {
    CAPTURE(other);
    CHECK_FALSE(ParseSubAxis(other));
    CHECK(WholeAxis(other) == other);
  }
}

TEST_CASE("a mesh has the factors that divide its axes") {
  const Mesh mesh = MeshOf({{"dp", 2}, {"tp", 16}});
  CHECK(mesh.SizeOf("tp:(1)8") == 8);
  CHECK(mesh.Parts({"dp", "tp:(1)8"}) == 16);
  for (const char* other : {"tp:(1)3", "tp:(4)8", "sp:(1)2", "dp:(2)2"}) {
    CAPTURE(other);
    CHECK_FALSE(mesh.FindDigit(other));
    CHECK(mesh.SizeOf(other) == 1);
  }
  for (int64_t device = 0; device < mesh.devices; ++device) {
    const auto at = CoordinatesOf(mesh, device);
    CHECK(IndexAlong(mesh, at, {"tp:(1)8"}) == device % 16 / 2);
    CHECK(IndexAlong(mesh, at, {"tp:(8)2"}) == device % 2);
    CHECK(IndexAlong(mesh, at, {"tp:(1)8", "dp"}) ==
          device % 16 / 2 * 2 + device / 16);
  }
}

TEST_CASE("KV heads are on the devices whose query heads use them") {
  const struct {
    std::vector<MeshAxis> axes;
    int64_t heads;
    std::optional<AxisGroup> expected;
  } cases[] = {
      {{{"tp", 4}}, 8, AxisGroup{"tp"}},
      {{{"tp", 8}}, 8, AxisGroup{"tp"}},
      {{{"tp", 16}}, 8, AxisGroup{"tp:(1)8"}},
      {{{"tp", 12}}, 8, std::nullopt},
      {{{"tp", 12}}, 6, AxisGroup{"tp:(1)6"}},
      {{{"tp", 16}}, 1, AxisGroup{}},
      {{{"a", 4}, {"b", 4}}, 8, AxisGroup{"a", "b:(1)2"}},
      {{{"a", 4}, {"b", 4}}, 4, AxisGroup{"a"}},
      {{{"a", 4}, {"b", 4}}, 2, AxisGroup{"a:(1)2"}},
      {{{"a", 3}, {"b", 4}}, 2, std::nullopt},
  };
  for (const auto& one : cases) {
    const Mesh mesh = MeshOf(one.axes);
    AxisGroup all;
    for (const MeshAxis& axis : mesh.axes) all.push_back(axis.name);
    CAPTURE(MeshText(mesh));
    CAPTURE(one.heads);
    const auto axes = KvHeadAxes(mesh, all, one.heads);
    CHECK(axes == one.expected);
    if (!axes || one.heads > mesh.devices) continue;
    for (int64_t device = 0; device < mesh.devices; ++device) {
      CHECK(IndexAlong(mesh, CoordinatesOf(mesh, device), *axes) ==
            device * one.heads / mesh.devices);
    }
  }
}

TEST_CASE("a refined mesh has factors, and joined names have axes again") {
  const Mesh mesh = MeshOf({{"dp", 2}, {"tp", 16}});
  const std::vector<Spec> specs = {{{"tp:(1)8"}}, {{}, {"tp:(1)4"}}};
  const auto refined = RefinedMesh(mesh, specs);
  REQUIRE(refined.has_value());
  CHECK(refined->devices == 32);
  CHECK(MeshText(*refined) == "dp=2 tp:(1)4=4 tp:(4)2=2 tp:(8)2.=2");
  CHECK(IsRefined(*refined));
  CHECK_FALSE(IsRefined(mesh));
  const AxisGroup all = RefinedGroup(*refined, {"dp", "tp"});
  CHECK(all == AxisGroup{"dp", "tp:(1)4", "tp:(4)2", "tp:(8)2."});
  CHECK(JoinedGroup(all) == AxisGroup{"dp", "tp"});
  const AxisGroup eight = RefinedGroup(*refined, {"tp:(1)8"});
  CHECK(eight == AxisGroup{"tp:(1)4", "tp:(4)2"});
  CHECK(JoinedGroup(eight) == AxisGroup{"tp:(1)8"});
  CHECK(JoinedGroup({"tp:(8)2."}) == AxisGroup{"tp:(8)2"});
  CHECK(refined->SizeOf("tp") == 16);
  CHECK(MeshText(JoinedMesh(*refined)) == MeshText(mesh));
  CHECK(RefinedGroup(*refined, {"sp"}) == AxisGroup{"sp"});
  // 4 and 6 devices of an axis have no common factors.
  const std::vector<Spec> apart = {{{"tp:(1)4"}}, {{"tp:(1)6"}}};
  CHECK_FALSE(RefinedMesh(MeshOf({{"tp", 12}}), apart));
}

TEST_CASE("slices divide the most significant factors") {
  Mesh mesh = MeshOf({{"tp", 16}});
  mesh.slices = 2;
  mesh.dcn = {2};
  const std::vector<Spec> specs = {{{"tp:(1)8"}}};
  const auto refined = RefinedMesh(mesh, specs);
  REQUIRE(refined.has_value());
  CHECK(refined->dcn == std::vector<int64_t>{2, 1});
  for (int64_t position = 0; position < 16; ++position) {
    CHECK(PlaceOf(*refined, position).device == PlaceOf(mesh, position).device);
  }
  CHECK(JoinedMesh(*refined).dcn == std::vector<int64_t>{2});
}

}  // namespace
}  // namespace shardc
