#include "lint/analysis/memory.h"

#include <map>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "model/mesh_layout.h"

namespace shardc {
namespace {

Mesh MeshOf(const std::vector<int64_t>& sizes, const std::vector<int64_t>& dcn,
            int64_t processes) {
  Mesh mesh;
  for (size_t i = 0; i < sizes.size(); ++i) {
    mesh.axes.push_back({std::string(1, static_cast<char>('a' + i)), sizes[i]});
    mesh.devices *= sizes[i];
    mesh.slices *= dcn[i];
  }
  if (mesh.slices > 1) mesh.dcn = dcn;
  mesh.processes = processes;
  return mesh;
}

// Compares the processes of all devices of each group.
bool AnyGroupCrosses(const Mesh& mesh, size_t axis) {
  std::map<std::vector<int64_t>, int64_t> process_of;
  for (int64_t position = 0; position < mesh.devices; ++position) {
    DevicePlace place = PlaceOf(mesh, position);
    place.coordinates[axis] = 0;
    const auto group =
        process_of.emplace(place.coordinates, place.process).first;
    if (group->second != place.process) return true;
  }
  return false;
}

void CheckAllAxes(const Mesh& mesh) {
  CAPTURE(MeshText(mesh));
  CAPTURE(mesh.processes);
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    CAPTURE(axis);
    CHECK(CrossesHosts(mesh, axis) == AnyGroupCrosses(mesh, axis));
  }
}

TEST_CASE("an axis crosses hosts if a group has devices of several hosts") {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{4, 4}, {2, 3, 3, 2}, {3, 1, 4, 2}, {12}, {5, 3}}) {
    for (const int64_t slices : {1, 2, 3}) {
      for (size_t over = 0; over < sizes.size(); ++over) {
        if (sizes[over] % slices != 0) continue;
        std::vector<int64_t> dcn(sizes.size(), 1);
        dcn[over] = slices;
        Mesh mesh = MeshOf(sizes, dcn, 1);
        for (int64_t hosts = 1; hosts <= mesh.devices; ++hosts) {
          if (mesh.devices % hosts != 0) continue;
          mesh.processes = hosts;
          CheckAllAxes(mesh);
        }
      }
    }
  }
  // A block of 18 device numbers that hosts of 27 divide.
  CheckAllAxes(MeshOf({6, 3, 3, 6}, {1, 1, 1, 1}, 12));
  CHECK(CrossesHosts(MeshOf({6, 3, 3, 6}, {1, 1, 1, 1}, 12), 2));
  // Two axes that span slices, and hosts of two slices.
  CheckAllAxes(MeshOf({6, 4}, {3, 2}, 3));
  CHECK_FALSE(CrossesHosts(MeshOf({6, 4}, {3, 2}, 3), 1));
}

}  // namespace
}  // namespace shardc
