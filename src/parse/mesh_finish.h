// Completes a mesh that was read from a file or a string. Computes the size
// that is written as -1 and the number of devices, and checks all axes.
#ifndef SHARDC_PARSE_MESH_FINISH_H_
#define SHARDC_PARSE_MESH_FINISH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "source/finding.h"

namespace shardc {

// The largest number of axes that a mesh may have. Real meshes have far fewer.
inline constexpr size_t kAxisLimit = 256;

struct Counted64 {
  int64_t value = 0;
  Place place;
};

struct MeshDraft {
  struct Axis {
    std::string name;
    int64_t size = 1;  // -1: computed from the other sizes
    AxisType type = AxisType::kAuto;
    Place place;  // the size in a YAML file, or the entry `dp:2` in a string
  };
  std::vector<Axis> axes;
  std::optional<Counted64> devices;
  std::optional<Counted64> processes;
  std::optional<Counted64> slices;
  // The number of slices (pods) along each axis, indexed by axis. The default
  // is 1. The value -1 means all slices that the other axes do not use. Empty
  // if the file has no `dcn`.
  std::vector<int64_t> dcn;
  Place dcn_place;
  std::optional<Device> device;
  Place place;  // place of the list of axes
};

// Computes missing sizes and checks the mesh. Returns nullopt after a finding.
std::optional<Mesh> FinishMesh(const MeshDraft& draft, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MESH_FINISH_H_
