#include "emit/plans/explain.h"

#include <doctest/doctest.h>

#include "model/mesh_layout.h"

namespace shardc {
namespace {

TEST_CASE("the first axis of a group is major, and the rest is unsharded") {
  Mesh mesh;
  mesh.axes = {{"dp", 2}, {"fsdp", 2}, {"tp", 2}};
  mesh.devices = 8;
  const DevicePlace place = PlaceOfDevice(mesh, 5);
  CHECK(PlaceText(mesh, place) == "device 5: dp=1 fsdp=0 tp=1, process 0");
  TensorType type;
  ModeLayout mode;
  DimParts parts;
  const auto slices = [&](int64_t device) {
    return SlicesOf(mesh, PlaceOfDevice(mesh, device), type, parts, mode);
  };
  mode.spec = {{"tp", "dp"}, {"fsdp"}};
  CHECK_FALSE(slices(5));  // the shape is not known
  type.shape = Shape{64, 64, 7};
  mode.shard_shape = ShardShape(mesh, *type.shape, mode.spec);
  REQUIRE(slices(5));
  CHECK(SlicesText(*slices(5)) == "[48:64, 0:32, 0:7]");
  mode.spec = {{"dp", "tp"}};
  CHECK(SlicesText(*slices(1)) == "[16:32, 0:64, 0:7]");
  // Each half of 64 rows is divided over the four devices of dp and tp.
  parts = {{.count = 2}};
  CHECK(SlicesText(*slices(1)) == "[8:16+40:48, 0:64, 0:7]");
  // So are parts of 32, 8 and 24 rows.
  parts = {{.count = 3, .sizes = {32, 8, 24}}};
  CHECK(SlicesText(*slices(1)) == "[8:16+34:36+46:52, 0:64, 0:7]");
  parts = {};
  // `dp` splits 5 elements into 3 and 2, and `tp` the last two into one each.
  type.shape = Shape{5};
  mode.shard_shape = ShardShape(mesh, *type.shape, mode.spec);
  CHECK(SlicesText(*slices(1)) == "[2:3]");
  CHECK(SlicesText(*slices(5)) == "[4:5]");
  CHECK(UnevenText(mesh, mode.spec[0], 5) ==
        "5, which [\"dp\", \"tp\"] splits into 4 shards of at most 2, the last "
        "of 1");
  mode.spec = {};
  type.shape = mode.shard_shape = Shape{};
  CHECK(SlicesText(*slices(5)) == "[]");
  mode.problems.emplace_back();
  CHECK_FALSE(slices(5));
}

TEST_CASE("a device's number is not its place where there are slices") {
  Mesh mesh;
  mesh.axes = {{"dp", 2}, {"tp", 4}};
  mesh.devices = 8;
  mesh.slices = 2;
  mesh.processes = 4;
  mesh.dcn = {1, 2};
  CHECK(PlaceText(mesh, PlaceOfDevice(mesh, 4)) ==
        "device 4: dp=0 tp=2, process 2, slice 1, position 2");
  for (int64_t device = 0; device < 8; ++device) {
    CHECK(PlaceOfDevice(mesh, device).device == device);
  }
}

}  // namespace
}  // namespace shardc
