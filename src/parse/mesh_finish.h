// The part of reading a mesh that files and strings share: the -1, the
// device count, and what runs over the axes.
#ifndef SHARDC_PARSE_MESH_FINISH_H_
#define SHARDC_PARSE_MESH_FINISH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/mesh.h"
#include "source/finding.h"

namespace shardc {

// More axes than any mesh has.
inline constexpr size_t kAxisLimit = 256;

struct Counted64 {
  int64_t value = 0;
  Place place;
};

struct MeshDraft {
  struct Axis {
    std::string name;
    int64_t size = 1;  // or -1
    AxisType type = AxisType::kAuto;
    Place place;  // of the size
  };
  std::vector<Axis> axes;
  std::optional<Counted64> devices;
  std::optional<Counted64> processes;
  std::optional<Counted64> slices;
  // One factor per axis (1 where none is given, -1 once), or empty.
  std::vector<int64_t> dcn;
  Place dcn_place;
  std::optional<Device> device;
  Place place;  // of the axes as a whole
};

// Findings: number (two -1), overflow, device-count.
std::optional<Mesh> FinishMesh(const MeshDraft& draft, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MESH_FINISH_H_
