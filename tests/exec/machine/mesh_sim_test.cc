#include "exec/machine/machine.h"

#include <doctest/doctest.h>

#include <set>

#include "exec/machine/mesh_fixture.h"

namespace shardc::exec {
namespace {

TEST_CASE("device ids are row-major, the last axis fastest") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"sp", 3}, {"tp", 4}});
  CHECK(mesh.devices() == 24);
  CHECK(mesh.Coordinate(13, "dp") == 1);
  CHECK(mesh.Coordinate(13, "sp") == 0);
  CHECK(mesh.Coordinate(13, "tp") == 1);
  CHECK(mesh.DeviceText(23) == "dp=1 sp=2 tp=3");
  CHECK(mesh.Coordinate(23, "ep") == 0);
}

TEST_CASE("the index along a list is mixed radix in the list's order") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"fsdp", 3}});
  const int device = 1 * 3 + 2;  // dp=1 fsdp=2
  CHECK(mesh.Index(device, {"dp", "fsdp"}) == 5);
  CHECK(mesh.Index(device, {"fsdp", "dp"}) == 5);
  CHECK(mesh.Index(1 * 3 + 0, {"dp", "fsdp"}) == 3);
  CHECK(mesh.Index(1 * 3 + 0, {"fsdp", "dp"}) == 1);
  CHECK(mesh.Index(device, {"absent", "dp"}) == 1);
  CHECK(mesh.Index(device, {}) == 0);
}

TEST_CASE("groups agree on the other axes and follow the list's order") {
  const SimMesh mesh = SimMeshOf({{"a", 2}, {"b", 2}, {"c", 2}});
  using Groups = std::vector<std::vector<int>>;
  CHECK(mesh.Groups({"c"}) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(mesh.Groups({"a"}) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(mesh.Groups({"c", "a"}) == Groups{{0, 4, 1, 5}, {2, 6, 3, 7}});
  CHECK(mesh.Groups({"a", "c"}) == Groups{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(mesh.Groups({}).size() == 8);
}

TEST_CASE("every axis list partitions the devices") {
  for (const SimMesh& mesh : SmallMeshes()) {
    for (const AxisGroup& axes : AxisLists(mesh)) {
      std::set<int> seen;
      for (const auto& group : mesh.Groups(axes)) {
        CHECK(static_cast<int64_t>(group.size()) == mesh.Parts(axes));
        for (size_t i = 0; i < group.size(); ++i) {
          CHECK(seen.insert(group[i]).second);
          CHECK(mesh.Index(group[i], axes) == static_cast<int64_t>(i));
        }
      }
      CHECK(static_cast<int>(seen.size()) == mesh.devices());
    }
  }
}

// Returns whether the slice that `inner` gives a device is within the slice
// that `outer` gives it. For all devices that holds exactly if `outer` is a
// prefix of `inner`.
bool SliceNests(const SimMesh& mesh, int64_t size, const AxisGroup& inner,
                const AxisGroup& outer, int device) {
  const int64_t inner_length = size / mesh.Parts(inner);
  const int64_t outer_length = size / mesh.Parts(outer);
  const int64_t inner_begin = mesh.Index(device, inner) * inner_length;
  const int64_t outer_begin = mesh.Index(device, outer) * outer_length;
  return inner_begin >= outer_begin &&
         inner_begin + inner_length <= outer_begin + outer_length;
}

// A dimension is sharded over A in one tensor and over C in another. Every
// device's A-slice is within its C-slice exactly if C is a prefix of A.
TEST_CASE("a slice nests in another exactly if its axes are a prefix") {
  int pairs = 0, nested = 0;
  for (const SimMesh& mesh : SmallMeshes()) {
    const auto lists = AxisLists(mesh);
    const int64_t size = 1 * mesh.devices() * 4;
    for (const AxisGroup& a : lists) {
      for (const AxisGroup& c : lists) {
        bool all = true;
        for (int d = 0; d < mesh.devices(); ++d) {
          all = all && SliceNests(mesh, size, a, c, d);
        }
        CHECK(all == IsPrefix(mesh, c, a));
        ++pairs;
        nested += all;
      }
    }
  }
  CHECK(pairs > 5000);
  CHECK(nested > 100);
  CHECK(nested < pairs);
}

}  // namespace
}  // namespace shardc::exec
