// Converts between device numbers and positions. A position is the row-major
// index of a device in the grid of mesh axes. A mesh may have several slices,
// and the DCN factor of an axis is the number of slices along the axis. Each
// coordinate of a position therefore determines a coordinate of the slice and a
// coordinate inside the slice. Slices are numbered in row-major order, and so
// are the devices in a slice. All devices of one slice come before the next
// slice. The devices of a process have consecutive numbers. For example, in a
// mesh with dp 2, tp 4, 2 slices along tp, and 4 processes:
//
//   position 2 has the coordinates (0, 2)
//     ->  slice 2 / 2 = 1, and inside this slice (0, 0)
//     ->  device 4, which belongs to process 2
//
// HostShape() computes the part of the mesh that belongs to one process. It
// divides the axis sizes, first to last, by the number of processes:
//
//   [2, 8, 4], 16 processes of 4 devices each  ->  [1, 1, 4]
#include "model/mesh_layout.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "source/checked.h"
#include "source/index.h"
#include "source/json_writer.h"

namespace shardc {
namespace {

// Returns the DCN factor (number of slices) of each axis, which is 1 for every
// axis in a mesh of one slice.
std::vector<int64_t> DcnOf(const Mesh& mesh) {
  if (mesh.dcn.size() == mesh.axes.size()) return mesh.dcn;
  return std::vector<int64_t>(mesh.axes.size(), 1);
}

int64_t DevicesPerProcess(const Mesh& mesh) {
  return std::max<int64_t>(1,
                           mesh.devices / std::max<int64_t>(1, mesh.processes));
}

int64_t PositionOfDevice(const Mesh& mesh, int64_t device) {
  const auto dcn = DcnOf(mesh);
  const int64_t per_slice =
      std::max<int64_t>(1, mesh.devices / std::max<int64_t>(1, mesh.slices));
  int64_t slice = device / per_slice;
  int64_t local = device % per_slice;
  std::vector<int64_t> coordinates(mesh.axes.size());
  for (size_t i = mesh.axes.size(); i > 0;) {
    --i;
    const int64_t inner = mesh.axes[i].size / dcn[i];
    coordinates[i] = (slice % dcn[i]) * inner + local % inner;
    slice /= dcn[i];
    local /= inner;
  }
  return PositionOf(mesh, coordinates);
}

// Writes nested lists for the axes from `axis` on. The next device to write is
// devices[next].
void WriteDevicesFrom(JsonWriter& json, const Mesh& mesh, size_t axis,
                      std::span<const int64_t> devices, size_t& next) {
  if (axis == mesh.axes.size()) {
    json.BeginObject();
    json.Member("id", devices[next++]);
    json.EndObject();
    return;
  }
  json.BeginArray();
  for (int64_t i = 0; i < mesh.axes[axis].size; ++i) {
    WriteDevicesFrom(json, mesh, axis + 1, devices, next);
  }
  json.EndArray();
}

}  // namespace

std::vector<int64_t> CoordinatesOf(const Mesh& mesh, int64_t position) {
  std::vector<int64_t> out(mesh.axes.size());
  for (size_t i = out.size(); i > 0;) {
    --i;
    out[i] = position % mesh.axes[i].size;
    position /= mesh.axes[i].size;
  }
  return out;
}

int64_t PositionOf(const Mesh& mesh, std::span<const int64_t> coordinates) {
  int64_t position = 0;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    position = position * mesh.axes[i].size + coordinates[i];
  }
  return position;
}

int64_t IndexAlong(const Mesh& mesh, std::span<const int64_t> coordinates,
                   const AxisGroup& axes) {
  int64_t index = 0;
  for (const std::string& axis : axes) {
    const auto digit = mesh.FindDigit(axis);
    if (digit)
      index = index * digit->size + digit->Of(coordinates[digit->axis]);
  }
  return index;
}

DevicePlace PlaceOf(const Mesh& mesh, int64_t position) {
  const auto dcn = DcnOf(mesh);
  DevicePlace place;
  place.position = position;
  place.coordinates = CoordinatesOf(mesh, position);
  int64_t local = 0;
  int64_t per_slice = 1;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const int64_t inner = mesh.axes[i].size / dcn[i];
    place.slice = place.slice * dcn[i] + place.coordinates[i] / inner;
    local = local * inner + place.coordinates[i] % inner;
    per_slice *= inner;
  }
  place.device = place.slice * per_slice + local;
  place.process = place.device / DevicesPerProcess(mesh);
  return place;
}

DevicePlace PlaceOfDevice(const Mesh& mesh, int64_t device) {
  return PlaceOf(mesh, PositionOfDevice(mesh, device));
}

std::vector<int64_t> DeviceOrder(const Mesh& mesh) {
  std::vector<int64_t> out;
  if (mesh.slices == 1) return out;
  for (int64_t position = 0; position < mesh.devices; ++position) {
    out.push_back(PlaceOf(mesh, position).device);
  }
  if (std::is_sorted(out.begin(), out.end())) out.clear();
  return out;
}

void WriteDeviceGrid(JsonWriter& json, const Mesh& mesh,
                     std::span<const int64_t> devices) {
  size_t next = 0;
  WriteDevicesFrom(json, mesh, 0, devices, next);
}

// Infers the slices from the list of device numbers, from the last axis to the
// first. Inside a slice, a step along an axis adds a fixed number to the device
// number: the product of the later axes' sizes within a slice. The number of
// indices that follow this pattern is the axis's size within a slice. An
// example with dp 2, tp 4 and the device numbers 0 1 4 5, 2 3 6 7:
//
//   tp: 0 1, and then 4 instead of 2  ->  2 in a slice, so 4 / 2 = 2 slices
//   dp: 0, and then 2                 ->  2 in a slice, so 1 slice
bool SetDeviceOrder(std::span<const int64_t> devices, Mesh& mesh) {
  if (std::ssize(devices) != mesh.devices) return false;
  Mesh made = mesh;
  made.slices = 1;
  made.dcn.assign(mesh.axes.size(), 1);
  // The distance in `devices` between neighbours along axis i.
  int64_t stride = 1;
  // The difference of device numbers between neighbours along axis i that are
  // in the same slice.
  int64_t local_stride = 1;
  for (size_t i = mesh.axes.size(); i > 0;) {
    --i;
    const int64_t size = mesh.axes[i].size;
    int64_t inner = 1;
    while (inner < size &&
           devices[AsIndex(inner * stride)] == inner * local_stride) {
      ++inner;
    }
    if (size % inner != 0) return false;
    made.dcn[i] = size / inner;
    made.slices *= made.dcn[i];
    stride *= size;
    local_stride *= inner;
  }
  if (made.slices == 1) made.dcn.clear();
  for (int64_t position = 0; position < made.devices; ++position) {
    if (devices[AsIndex(position)] != PlaceOf(made, position).device) {
      return false;
    }
  }
  mesh = std::move(made);
  return true;
}

std::vector<int64_t> PositionsOfProcess(const Mesh& mesh, int64_t process) {
  const int64_t count = DevicesPerProcess(mesh);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(PositionOfDevice(mesh, process * count + i));
  }
  return out;
}

std::optional<std::vector<int64_t>> HostShape(std::span<const int64_t> global,
                                              int64_t local_devices,
                                              int64_t processes) {
  const auto total = CheckedProduct(global);
  if (!total || total != CheckedMul(local_devices, processes)) {
    return std::nullopt;
  }
  std::vector<int64_t> out(global.begin(), global.end());
  int64_t remaining = processes;
  for (int64_t& size : out) {
    if (remaining <= 1) break;
    const int64_t taken = std::min(size, remaining);
    if (taken <= 0) return std::nullopt;
    size /= taken;
    remaining /= taken;
  }
  const auto product = CheckedProduct(out);
  if (!product || *product != local_devices) return std::nullopt;
  return out;
}

NodeRanks RanksOf(int64_t tensor_parallel, int64_t sequence_parallel,
                  int64_t local_devices, int64_t processes, int64_t process) {
  NodeRanks out;
  const auto total = CheckedMul(tensor_parallel, sequence_parallel);
  out.mp_nodes = std::max<int64_t>(
      1, total.value_or(1) / std::max<int64_t>(1, local_devices));
  out.dp_nodes = processes / out.mp_nodes;
  out.dp_rank = process / out.mp_nodes;
  out.mp_rank = process % out.mp_nodes;
  return out;
}

NodeRanks RanksOf(const Mesh& mesh, const AxisRules& axes, int64_t process) {
  const AxisGroup tensor = axes.Value(AxisRule::kTensorParallel).axes;
  AxisGroup sequence = axes.Value(AxisRule::kSequenceParallel).axes;
  // If both rules name an axis, its devices must be counted only once.
  std::erase_if(sequence, [&](const std::string& axis) {
    return std::find(tensor.begin(), tensor.end(), axis) != tensor.end();
  });
  return RanksOf(mesh.Parts(tensor).value_or(1),
                 mesh.Parts(sequence).value_or(1), DevicesPerProcess(mesh),
                 mesh.processes, process);
}

}  // namespace shardc
