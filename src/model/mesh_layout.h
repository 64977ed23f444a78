// Where devices stand in a mesh: the grid in row-major order, slices,
// processes and ranks.
//
// A position counts the grid in row-major order; plans, checkpoints and the
// simulated mesh number devices by it. With several slices an axis of size n
// and DCN factor d is d slices of n / d, so that the device at a position is
// the one of its slice, and device numbers run through one slice, and inside
// it through one process, first.
#ifndef SHARDC_MODEL_MESH_LAYOUT_H_
#define SHARDC_MODEL_MESH_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"

namespace shardc {

struct DevicePlace {
  int64_t position = 0;
  std::vector<int64_t> coordinates;  // one per axis
  int64_t device = 0;                // its number
  int64_t process = 0;
  int64_t slice = 0;
  bool operator==(const DevicePlace&) const = default;
};

// Row-major coordinates of a position, and back.
std::vector<int64_t> CoordinatesOf(const Mesh& mesh, int64_t position);
int64_t PositionOf(const Mesh& mesh, std::span<const int64_t> coordinates);
// Index along a list of axes, mixed radix in the order of the *list*, its first
// axis most significant. An axis that the mesh lacks has size 1.
int64_t IndexAlong(const Mesh& mesh, std::span<const int64_t> coordinates,
                   const AxisGroup& axes);

DevicePlace PlaceOf(const Mesh& mesh, int64_t position);
// Of a device's number, 0 <= device < mesh.devices.
DevicePlace PlaceOfDevice(const Mesh& mesh, int64_t device);
// Positions of a process's devices, ascending by device number.
std::vector<int64_t> PositionsOfProcess(const Mesh& mesh, int64_t process);

// The part of the mesh that one process holds: processes are taken from the
// leading axes, whole axes first. Nothing when that does not come out even.
std::optional<std::vector<int64_t>> HostShape(std::span<const int64_t> global,
                                              int64_t local_devices,
                                              int64_t processes);

// A node is the processes that hold one copy of the model:
// mp_nodes = max(1, tp * sp / local devices) processes make one,
// dp_nodes = processes / mp_nodes of them, all by integer division.
struct NodeRanks {
  int64_t mp_nodes = 1;
  int64_t dp_nodes = 1;
  int64_t dp_rank = 0;
  int64_t mp_rank = 0;
  bool operator==(const NodeRanks&) const = default;
};
NodeRanks RanksOf(int64_t tensor_parallel, int64_t sequence_parallel,
                  int64_t local_devices, int64_t processes, int64_t process);
// By the axis rules' names of tensor and sequence parallelism.
NodeRanks RanksOf(const Mesh& mesh, const AxisRules& axes, int64_t process);

}  // namespace shardc

#endif  // SHARDC_MODEL_MESH_LAYOUT_H_
