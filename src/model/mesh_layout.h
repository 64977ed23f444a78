// The arrangement of devices in a mesh: positions, slices, processes and ranks.
//
// A position is a device's row-major index in the grid of axes. Plans,
// checkpoints and the simulated mesh number devices by position.
//
// A mesh may consist of several slices, which a data-center network (DCN)
// connects. The DCN factor of an axis is the number of slices along the axis.
// If an axis of size n has the DCN factor d, each slice has n / d of the axis's
// coordinates. Device numbers count all devices of one slice before the next,
// and inside a slice all devices of one process before the next.
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
  std::vector<int64_t> coordinates;  // one coordinate for each axis
  // The number of the device. Devices are numbered from 0, slice by slice.
  int64_t device = 0;
  int64_t process = 0;
  int64_t slice = 0;
  bool operator==(const DevicePlace&) const = default;
};

// Convert between a position and its coordinates, of which the first axis is
// the most significant.
std::vector<int64_t> CoordinatesOf(const Mesh& mesh, int64_t position);
int64_t PositionOf(const Mesh& mesh, std::span<const int64_t> coordinates);
// Returns the index of a device along a list of axes, in which the first axis
// is the most significant: with sizes 2 and 4, coordinates (1, 3) have the
// index 7. An axis that the mesh lacks has size 1.
int64_t IndexAlong(const Mesh& mesh, std::span<const int64_t> coordinates,
                   const AxisGroup& axes);

DevicePlace PlaceOf(const Mesh& mesh, int64_t position);
// Returns the place of the device with this number, 0 <= device < mesh.devices.
DevicePlace PlaceOfDevice(const Mesh& mesh, int64_t device);
// Returns the number of slices along an axis.
inline int64_t SlicesAlong(const Mesh& mesh, size_t axis) {
  return axis < mesh.dcn.size() ? mesh.dcn[axis] : 1;
}

// Returns the device numbers in row-major order of the mesh. Returns an empty
// list if the numbers are 0, 1, 2 and so on, as in a mesh of one slice.
std::vector<int64_t> DeviceOrder(const Mesh& mesh);
// Writes device numbers, given in row-major order of the mesh, as orbax does:
// as nested lists with one level for each axis, [[{"id": 0}, {"id": 1}], ...].
void WriteDeviceGrid(JsonWriter& json, const Mesh& mesh,
                     std::span<const int64_t> devices);
// Divides the mesh into slices so that DeviceOrder() returns these numbers.
// Returns false, and changes nothing, if no division into slices has that
// order.
bool SetDeviceOrder(std::span<const int64_t> devices, Mesh& mesh);
// Returns the positions of a process's devices, ascending by device number.
std::vector<int64_t> PositionsOfProcess(const Mesh& mesh, int64_t process);

// Returns the sizes, along each axis, of the part of the mesh that belongs to
// one process: [1, 1, 4] for the mesh [2, 8, 4] and 16 processes. The axis
// sizes are divided by the number of processes, from the first axis on. Returns
// nullopt if the part does not have `local_devices` devices, for example
// because a division leaves a remainder.
std::optional<std::vector<int64_t>> HostShape(std::span<const int64_t> global,
                                              int64_t local_devices,
                                              int64_t processes);

// Processes form nodes, ideally one node for each copy of the model. `mp_nodes`
// is the number of processes of a node, max(1, tp * sp / local devices).
// `dp_nodes` is the number of nodes, processes / mp_nodes. For example, tp = 8,
// sp = 1 and 6 processes of 4 devices: 3 nodes of 2 processes. Divisions round
// down, so a node may hold several copies, or only a part of one.
struct NodeRanks {
  int64_t mp_nodes = 1;
  int64_t dp_nodes = 1;
  int64_t dp_rank = 0;
  int64_t mp_rank = 0;
  bool operator==(const NodeRanks&) const = default;
};
NodeRanks RanksOf(int64_t tensor_parallel, int64_t sequence_parallel,
                  int64_t local_devices, int64_t processes, int64_t process);
// Returns the node ranks of a process. The axis rules name the axes of tensor
// and sequence parallelism.
NodeRanks RanksOf(const Mesh& mesh, const AxisRules& axes, int64_t process);

}  // namespace shardc

#endif  // SHARDC_MODEL_MESH_LAYOUT_H_
