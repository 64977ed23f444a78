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

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/manifest.h"
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

// The elements of one dimension that a shard has.
struct ShardRange {
  int64_t begin = 0;
  int64_t size = 0;

  int64_t end() const { return begin + size; }
  bool operator==(const ShardRange&) const = default;
};

// Returns the sizes of a group's axes, first to last. An axis that the mesh
// lacks has size 1.
std::vector<int64_t> AxisSizes(const Mesh& mesh, const AxisGroup& group);

// Returns the range of shard number `index` of a dimension of `size` elements.
// `axis_sizes` are the sizes of the axes that shard the dimension, and the
// digits of `index` are the coordinates along these axes, the first axis being
// the most significant. If the axes do not divide the size, the last shards are
// shorter or empty. The first shard is never shorter than another one.
ShardRange RangeOfShard(int64_t size, std::span<const int64_t> axis_sizes,
                        int64_t index);

// Returns the range of a device that has these coordinates in the mesh.
ShardRange RangeAlong(const Mesh& mesh, std::span<const int64_t> coordinates,
                      const AxisGroup& group, int64_t size);

// Returns the shape of the largest shard, which is that of the device whose
// coordinates are all 0. An axis that the mesh lacks has size 1.
Shape ShardShape(const Mesh& mesh, Shape shape, const Spec& spec);

// Returns the dimensions that their axes do not divide, in ascending order. If
// there are none, all shards have the same shape.
std::vector<size_t> UnevenDims(const Mesh& mesh, const Shape& shape,
                               const Spec& spec);
inline bool DividesEvenly(const Mesh& mesh, const Shape& shape,
                          const Spec& spec) {
  return UnevenDims(mesh, shape, spec).empty();
}

// Sub-axes: factors of a mesh axis, in the notation of Shardy. A dimension may
// be sharded over only a part of an axis. For example, 8 KV heads on an axis of
// 16 devices are sharded over the first factor of 16 = 8 * 2, so that each head
// is on two devices:
//
//   tp:16 as 8 * 2    device i has coordinate i / 2 on `tp:(1)8`, and
//                     coordinate i % 2 on `tp:(8)2`
//
// `tp:(8)2` is the factor of size 2 of which the more significant factors have
// the product 8. Names of mesh axes cannot contain `:`.

struct SubAxis {
  std::string_view axis;  // the mesh axis
  // The product of the sizes of the more significant factors.
  int64_t before = 1;
  int64_t size = 1;
  // Whether no less significant factor follows. It is known only in a refined
  // mesh (RefinedMesh()), whose names end with a dot there.
  bool last = false;
};
// Returns the parts of a name such as `tp:(1)8`; nullopt for any other name.
std::optional<SubAxis> ParseSubAxis(std::string_view name);
std::string SubAxisName(std::string_view axis, int64_t before, int64_t size);
// Returns `tp` for `tp:(1)8`, and any other name as it is.
std::string_view WholeAxis(std::string_view name);
bool HasSubAxis(const AxisGroup& group);
bool HasSubAxis(const Spec& spec);

// Returns a mesh over the same devices in which each axis that has sub-axes in
// `specs` is replaced by its factors, so that every spec can be written with
// complete axes of the mesh. Returns the mesh itself if no spec has a sub-axis.
// Returns nullopt if no common factors exist, as for sub-axes of 4 and of 6
// devices of one axis, or if the factors divide the axis's slices.
std::optional<Mesh> RefinedMesh(const Mesh& mesh, std::span<const Spec> specs);

// Returns whether some axis of the mesh is a factor of an axis.
bool IsRefined(const Mesh& mesh);

// Rewrites names of axes and sub-axes as the factors in a refined mesh. Names
// that the mesh has, and axes that it lacks, stay as they are.
AxisGroup RefinedGroup(const Mesh& refined, const AxisGroup& group);
Spec RefinedSpec(const Mesh& refined, const Spec& spec);

// Joins factors that follow each other: [`tp:(1)8`, `tp:(8)2.`] becomes [`tp`].
// It is the inverse of RefinedGroup(), for output.
AxisGroup JoinedGroup(const AxisGroup& group);
// Returns the mesh whose axes are joined.
Mesh JoinedMesh(const Mesh& refined);

// Returns the axes that divide the KV heads over the devices of `axes`, so that
// device i of n has head i * heads / n, rounded down. If the devices divide the
// heads, these are the axes. Otherwise they are the leading axes and the
// leading factor of an axis whose product is the number of heads. Returns
// nullopt if the number of devices is not a multiple of the number of heads, or
// if no leading factors have the product:
//
//   8 heads over tp:4    [tp]            2 heads on each device
//   8 heads over tp:16   [tp:(1)8]       each head on 2 devices
//   1 head over tp:16    []
//   8 heads over tp:12   nullopt
std::optional<AxisGroup> KvHeadAxes(const Mesh& mesh, const AxisGroup& axes,
                                    int64_t heads);

}  // namespace shardc

#endif  // SHARDC_MODEL_MESH_LAYOUT_H_
