// The simulated mesh: device ids, coordinates, and groups over axes.
//
// A device's id is its row-major rank over the mesh's axes: the last axis
// varies fastest. The index along an axis list (a1, ..., ak) is computed in the
// same way from the coordinates on a1, ..., ak. With dp=2 fsdp=4, the device at
// dp=1 fsdp=2 has the index 2 * 2 + 1 = 5 along [fsdp, dp], but 1 * 4 + 2 = 6
// along [dp, fsdp]: these are different layouts. An axis that the mesh lacks
// has size 1.
//
// With a transport there are n ranks (processes), and D devices in total. Rank
// r holds devices [r D / n, (r + 1) D / n); n must not exceed D. The arrays of
// devices on other ranks have a shape and no elements.
#ifndef SHARDC_EXEC_MACHINE_MESH_SIM_H_
#define SHARDC_EXEC_MACHINE_MESH_SIM_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "comm/reshard.h"
#include "exec/machine/transport.h"
#include "model/mesh.h"
#include "model/spec.h"

namespace shardc::exec {

class SimMesh {
 public:
  explicit SimMesh(Mesh mesh, Transport* transport = nullptr);

  const Mesh& mesh() const { return mesh_; }
  int devices() const { return devices_; }
  // Returns null if this process holds all devices.
  Transport* transport() const { return transport_; }
  // This process holds devices [first_held, end_held).
  int first_held() const { return first_held_; }
  int end_held() const { return end_held_; }
  bool Holds(int device) const {
    return device >= first_held_ && device < end_held_;
  }
  int RankOf(int device) const;
  int64_t SizeOf(std::string_view axis) const;
  bool Has(std::string_view axis) const;
  // Returns the product of the axes' sizes: the number of shards of a dimension
  // that is sharded over them.
  int64_t Parts(const AxisGroup& axes) const;

  int64_t Coordinate(int device, std::string_view axis) const;
  // Returns the device's index along the axes, in [0, Parts(axes)).
  int64_t Index(int device, const AxisGroup& axes) const;
  // Returns the groups of devices that have equal coordinates on all axes not
  // in the list. The members of a group are in the order of Index(). The groups
  // are in the order of their first members' ids.
  std::vector<std::vector<int>> Groups(const AxisGroup& axes) const;
  // Returns the coordinates of a device for messages, such as "dp=1 tp=3".
  std::string DeviceText(int device) const;

 private:
  Mesh mesh_;
  int devices_ = 1;
  Transport* transport_;
  int first_held_ = 0, end_held_ = 1;
  std::vector<std::vector<int64_t>> coordinates_;  // [device][mesh axis]
};

inline AxisGroup DropTrivial(const SimMesh& mesh, const AxisGroup& axes) {
  return DropTrivial(mesh.mesh(), axes);
}
inline bool IsPrefix(const SimMesh& mesh, const AxisGroup& prefix,
                     const AxisGroup& whole) {
  return IsPrefix(mesh.mesh(), prefix, whole);
}

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_MESH_SIM_H_
