#include "emit/plans/device_share.h"

#include <doctest/doctest.h>

namespace shardc {
namespace {

TEST_CASE("the first axis of a group is major, and the rest is unsharded") {
  Mesh mesh;
  mesh.axes = {{"dp", 2}, {"fsdp", 2}, {"tp", 2}};
  mesh.devices = 8;
  const DevicePlace place = PlaceOfDevice(mesh, 5);
  CHECK(PlaceText(mesh, place) == "device 5: dp=1 fsdp=0 tp=1, process 0");
  ModeLayout mode;
  mode.spec = {{"tp", "dp"}, {"fsdp"}};
  CHECK_FALSE(SlicesOf(mesh, place, mode));  // the shape is not known
  mode.shard_shape = std::vector<int64_t>{16, 32, 7};
  const auto slices = SlicesOf(mesh, place, mode);
  REQUIRE(slices);
  CHECK(SlicesText(*slices) == "[48:64, 0:32, 0:7]");
  mode.spec = {{"dp", "tp"}};
  CHECK(SlicesText(*SlicesOf(mesh, PlaceOfDevice(mesh, 1), mode)) ==
        "[16:32, 0:32, 0:7]");
  mode.shard_shape = std::vector<int64_t>{};
  CHECK(SlicesText(*SlicesOf(mesh, place, mode)) == "[]");
  mode.problems.emplace_back();
  CHECK_FALSE(SlicesOf(mesh, place, mode));
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
