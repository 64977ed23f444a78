// Implements device ids and groups of devices. Ids are row-major: the
// coordinate on an axis is the id divided by the axis's stride, modulo the
// axis's size. A group over a list of axes has the devices that have equal
// coordinates on all other axes. Its devices are in row-major order of the axes
// as listed. For example:
//
//   dp 2, tp 4: device 6 is dp=1 tp=2; groups of dp: 0 4, 1 5, 2 6, 3 7
#include "exec/machine/mesh_sim.h"

#include <map>
#include <string>
#include <utility>

#include "model/mesh_layout.h"
#include "source/index.h"

namespace shardc::exec {

SimMesh::SimMesh(Mesh mesh, Transport* transport)
    : mesh_(std::move(mesh)), transport_(transport) {
  mesh_.devices = 1;
  for (const MeshAxis& axis : mesh_.axes) mesh_.devices *= axis.size;
  devices_ = static_cast<int>(mesh_.devices);
  coordinates_.reserve(AsIndex(devices_));
  for (int device = 0; device < devices_; ++device) {
    coordinates_.push_back(CoordinatesOf(mesh_, device));
  }
  end_held_ = devices_;
  if (transport_ == nullptr) return;
  const int64_t rank = transport_->rank(), ranks = transport_->ranks();
  first_held_ = static_cast<int>(rank * devices_ / ranks);
  end_held_ = static_cast<int>((rank + 1) * devices_ / ranks);
}

int SimMesh::RankOf(int device) const {
  if (transport_ == nullptr) return 0;
  const int64_t ranks = transport_->ranks();
  return static_cast<int>(((device + 1) * ranks - 1) / devices_);
}

int64_t SimMesh::SizeOf(std::string_view axis) const {
  return mesh_.SizeOf(axis);
}

bool SimMesh::Has(std::string_view axis) const {
  return mesh_.Find(axis).has_value();
}

int64_t SimMesh::Parts(const AxisGroup& axes) const {
  int64_t out = 1;
  for (const std::string& axis : axes) out *= SizeOf(axis);
  return out;
}

int64_t SimMesh::Coordinate(int device, std::string_view axis) const {
  const auto at = mesh_.Find(axis);
  return at ? coordinates_[AsIndex(device)][*at] : 0;
}

int64_t SimMesh::Index(int device, const AxisGroup& axes) const {
  return IndexAlong(mesh_, coordinates_[AsIndex(device)], axes);
}

std::vector<std::vector<int>> SimMesh::Groups(const AxisGroup& axes) const {
  // Members of a group have the same key: the id that a member would have with
  // coordinate 0 on the listed axes.
  std::map<int64_t, size_t> of_key;
  std::vector<std::vector<int>> out;
  for (int device = 0; device < devices_; ++device) {
    std::vector<int64_t> first = coordinates_[AsIndex(device)];
    for (const std::string& axis : axes) {
      if (const auto listed = mesh_.Find(axis)) first[*listed] = 0;
    }
    auto [at, fresh] = of_key.emplace(PositionOf(mesh_, first), out.size());
    if (fresh) out.emplace_back(AsIndex(Parts(axes)), 0);
    out[at->second][AsIndex(Index(device, axes))] = device;
  }
  return out;
}

std::string SimMesh::DeviceText(int device) const {
  std::string out;
  for (const MeshAxis& axis : mesh_.axes) {
    if (!out.empty()) out += ' ';
    out += axis.name + "=" + std::to_string(Coordinate(device, axis.name));
  }
  return out;
}

}  // namespace shardc::exec
