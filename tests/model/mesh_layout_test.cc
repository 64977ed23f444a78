#include "model/mesh_layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "source/size.h"

namespace shardc {
namespace {

Mesh Grid(std::vector<int64_t> sizes) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.axes.push_back({"a" + std::to_string(i), sizes[i]});
    mesh.devices *= sizes[i];
  }
  return mesh;
}

TEST_CASE("one slice counts devices in row-major order") {
  Mesh mesh = Grid({2, 3, 4});
  mesh.processes = 6;
  for (int64_t position = 0; position < mesh.devices; ++position) {
    const auto at = CoordinatesOf(mesh, position);
    CHECK(PositionOf(mesh, at) == position);
    const DevicePlace place = PlaceOf(mesh, position);
    CHECK(place.device == position);
    CHECK(place.process == position / 4);
    CHECK(place.slice == 0);
    CHECK(place.coordinates == at);
  }
  CHECK(CoordinatesOf(mesh, 23) == std::vector<int64_t>{1, 2, 3});
  CHECK(PositionsOfProcess(mesh, 5) == std::vector<int64_t>{20, 21, 22, 23});
}

TEST_CASE("the index along a list is mixed radix in the list's order") {
  const Mesh mesh = Grid({2, 3, 4});
  const std::vector<int64_t> at = {1, 0, 3};
  CHECK(IndexAlong(mesh, at, {}) == 0);
  CHECK(IndexAlong(mesh, at, {"a0", "a2"}) == 1 * 4 + 3);
  CHECK(IndexAlong(mesh, at, {"a2", "a0"}) == 3 * 2 + 1);
  CHECK(IndexAlong(mesh, at, {"a0", "absent", "a1"}) == 3);
  for (int64_t position = 0; position < mesh.devices; ++position) {
    CHECK(IndexAlong(mesh, CoordinatesOf(mesh, position), {"a0", "a1", "a2"}) ==
          position);
  }
}

TEST_CASE("slices are the outer factor of each axis") {
  Mesh mesh = Grid({4, 2});
  mesh.slices = 2;
  mesh.processes = 4;
  mesh.dcn = {1, 2};
  // Each slice is a column of 4 x 1 devices, which have consecutive numbers.
  const std::vector<int64_t> expected = {0, 4, 1, 5, 2, 6, 3, 7};
  for (int64_t position = 0; position < 8; ++position) {
    const DevicePlace place = PlaceOf(mesh, position);
    CHECK(place.device == expected[static_cast<size_t>(position)]);
    CHECK(place.slice == position % 2);
    CHECK(place.process == place.device / 2);
  }
  CHECK(PositionsOfProcess(mesh, 0) == std::vector<int64_t>{0, 2});
  CHECK(PositionsOfProcess(mesh, 3) == std::vector<int64_t>{5, 7});
}

TEST_CASE("every device stands at one position, whatever the slices") {
  Mesh mesh = Grid({4, 6, 2});
  mesh.slices = 6;
  mesh.dcn = {2, 3, 1};
  mesh.processes = 12;
  std::set<int64_t> devices;
  std::set<int64_t> positions;
  for (int64_t i = 0; i < mesh.devices; ++i) {
    const DevicePlace place = PlaceOf(mesh, i);
    CHECK(place.slice == place.device / 8);
    devices.insert(place.device);
  }
  CHECK(devices.size() == 48);
  for (int64_t process = 0; process < 12; ++process) {
    for (int64_t position : PositionsOfProcess(mesh, process)) {
      CHECK(PlaceOf(mesh, position).process == process);
      CHECK(positions.insert(position).second);
    }
  }
  CHECK(positions.size() == 48);
}

TEST_CASE("slices along the last axis reorder the devices") {
  Mesh mesh = Grid({2, 4});
  CHECK(DeviceOrder(mesh).empty());
  mesh.slices = 2;
  mesh.dcn = {1, 2};
  CHECK(DeviceOrder(mesh) == std::vector<int64_t>{0, 1, 4, 5, 2, 3, 6, 7});
  // Slices along the first axis do not change the order of devices.
  mesh.dcn = {2, 1};
  CHECK(DeviceOrder(mesh).empty());
}

TEST_CASE("the order of devices gives back the slices") {
  const std::vector<std::vector<int64_t>> sizes = {
      {4, 6}, {2, 3, 4}, {6}, {1, 4, 1, 6}, {2, 2, 2, 2}};
  for (const auto& of_mesh : sizes) {
    std::vector<int64_t> dcn(of_mesh.size(), 1);
    while (true) {
      Mesh mesh = Grid(of_mesh);
      for (const int64_t factor : dcn) mesh.slices *= factor;
      if (mesh.slices > 1) mesh.dcn = dcn;
      const std::vector<int64_t> order = DeviceOrder(mesh);
      Mesh found = Grid(of_mesh);
      if (order.empty()) {
        std::vector<int64_t> plain(AsIndex(mesh.devices));
        std::iota(plain.begin(), plain.end(), int64_t{0});
        CHECK(SetDeviceOrder(plain, found));
        CHECK(found.slices == 1);
      } else {
        CHECK(SetDeviceOrder(order, found));
        CHECK(DeviceOrder(found) == order);
        CHECK(found.slices <= mesh.slices);
      }
      size_t i = 0;  // go to the next combination of factors of the sizes
      while (i < dcn.size()) {
        do ++dcn[i];
        while (dcn[i] <= of_mesh[i] && of_mesh[i] % dcn[i] != 0);
        if (dcn[i] <= of_mesh[i]) break;
        dcn[i++] = 1;
      }
      if (i == dcn.size()) break;
    }
  }
}

TEST_CASE("an order that no slices give is refused") {
  const std::vector<std::vector<int64_t>> orders = {{0, 2, 1, 3, 4, 5, 6, 7},
                                                    {7, 6, 5, 4, 3, 2, 1, 0},
                                                    {0, 1, 2},
                                                    {0, 0, 0, 0, 0, 0, 0, 0},
                                                    {1, 2, 3, 4, 5, 6, 7, 0},
                                                    {0, 1, 2, 4, 3, 5, 6, 7},
                                                    {},
                                                    {-1, 9, 1, 3, 4, 5, 6, 7}};
  for (const auto& order : orders) {
    Mesh mesh = Grid({2, 4});
    CHECK_FALSE(SetDeviceOrder(order, mesh));
    CHECK(mesh.slices == 1);
    CHECK(mesh.dcn.empty());
  }
}

TEST_CASE("processes are taken from the leading axes") {
  struct {
    std::vector<int64_t> global;
    int64_t local, processes;
    std::optional<std::vector<int64_t>> expected;
  } const cases[] = {
      {{2, 2, 2}, 2, 4, {{1, 1, 2}}},
      {{1, 1, 8}, 2, 4, {{1, 1, 2}}},
      {{2, 8}, 2, 8, {{1, 2}}},
      {{6, 4}, 12, 2, {{3, 4}}},
      {{8}, 8, 1, {{8}}},
      {{}, 1, 1, {std::vector<int64_t>{}}},
      {{3, 4}, 6, 2, std::nullopt},
      {{6, 4}, 3, 8, std::nullopt},
      // The mesh has six devices, but two processes of two devices have four.
      {{3, 2}, 2, 2, std::nullopt},
      {{1, 1, 8}, 2, 3, std::nullopt},
  };
  for (const auto& c : cases) {
    CHECK(HostShape(c.global, c.local, c.processes) == c.expected);
  }
}

TEST_CASE("ranks") {
  CHECK(RanksOf(8, 1, 4, 4, 3) == NodeRanks{2, 2, 1, 1});
  CHECK(RanksOf(1, 1, 8, 16, 9) == NodeRanks{1, 16, 9, 0});
  CHECK(RanksOf(4, 4, 4, 2, 1) == NodeRanks{4, 0, 0, 1});
  Mesh mesh = Grid({2, 8});
  mesh.axes[1].name = "model";
  mesh.processes = 4;
  AxisRules axes;
  axes.Set(AxisRule::kTensorParallel, {.is_null = false, .axes = {"model"}});
  CHECK(RanksOf(mesh, axes, 3) == NodeRanks{2, 2, 1, 1});
  CHECK(RanksOf(mesh, AxisRules(), 3) == NodeRanks{1, 4, 3, 0});
  // An axis of both rules counts once.
  AxisRules both = axes;
  both.Set(AxisRule::kSequenceParallel, axes.Value(AxisRule::kTensorParallel));
  CHECK(RanksOf(mesh, both, 3) == NodeRanks{2, 2, 1, 1});
}

}  // namespace
}  // namespace shardc
