// The steps that are the same for mesh files and mesh strings: the size -1, the
// number of devices, and checks over all axes.
#ifndef SHARDC_PARSE_MESH_FINISH_H_
#define SHARDC_PARSE_MESH_FINISH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "source/finding.h"

namespace shardc {

// The most axes that a mesh may have; real meshes have far fewer.
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
    Place place;  // place of the size or of its entry
  };
  std::vector<Axis> axes;
  std::optional<Counted64> devices;
  std::optional<Counted64> processes;
  std::optional<Counted64> slices;
  // The number of slices along each axis: 1 by default, -1 for the number of
  // slices that the other axes leave. Empty if the draft has no `dcn`.
  std::vector<int64_t> dcn;
  Place dcn_place;
  std::optional<Device> device;
  Place place;  // of the list of axes
};

// Completes a mesh. Returns nullopt after a finding.
std::optional<Mesh> FinishMesh(const MeshDraft& draft, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MESH_FINISH_H_
