// Device ids are row-major; a coordinate is a division by the axis's stride,
// and a group is all devices that agree on every other axis, in the order of
// the axes asked for.
//
//   dp 2, tp 4: device 6 is dp=1 tp=2; groups of dp: 0 4, 1 5, 2 6, 3 7
#include "exec/machine/mesh_sim.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace shardc::exec {

SimMesh::SimMesh(Mesh mesh) : mesh_(std::move(mesh)) {
  stride_.assign(mesh_.axes.size(), 1);
  int64_t total = 1;
  for (size_t i = mesh_.axes.size(); i-- > 0;) {
    stride_[i] = total;
    total *= mesh_.axes[i].size;
  }
  devices_ = static_cast<int>(total);
}

int64_t SimMesh::SizeOf(std::string_view axis) const {
  for (const MeshAxis& a : mesh_.axes) {
    if (a.name == axis) return a.size;
  }
  return 1;
}

bool SimMesh::Has(std::string_view axis) const {
  return std::any_of(mesh_.axes.begin(), mesh_.axes.end(),
                     [&](const MeshAxis& a) { return a.name == axis; });
}

int64_t SimMesh::Parts(const AxisGroup& axes) const {
  int64_t out = 1;
  for (const std::string& axis : axes) out *= SizeOf(axis);
  return out;
}

int64_t SimMesh::Coordinate(int device, std::string_view axis) const {
  for (size_t i = 0; i < mesh_.axes.size(); ++i) {
    if (mesh_.axes[i].name == axis) {
      return device / stride_[i] % mesh_.axes[i].size;
    }
  }
  return 0;
}

int64_t SimMesh::Index(int device, const AxisGroup& axes) const {
  int64_t out = 0;
  for (const std::string& axis : axes) {
    out = out * SizeOf(axis) + Coordinate(device, axis);
  }
  return out;
}

std::vector<std::vector<int>> SimMesh::Groups(const AxisGroup& axes) const {
  // A group's key is the id that its members' coordinates on the other axes
  // would have with the listed axes at 0.
  std::map<int64_t, size_t> of_key;
  std::vector<std::vector<int>> out;
  for (int device = 0; device < devices_; ++device) {
    int64_t key = device;
    for (size_t i = 0; i < mesh_.axes.size(); ++i) {
      const bool listed =
          std::find(axes.begin(), axes.end(), mesh_.axes[i].name) != axes.end();
      if (listed) {
        key -= device / stride_[i] % mesh_.axes[i].size * stride_[i];
      }
    }
    auto [at, fresh] = of_key.emplace(key, out.size());
    if (fresh) out.emplace_back(static_cast<size_t>(Parts(axes)), 0);
    out[at->second][static_cast<size_t>(Index(device, axes))] = device;
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

AxisGroup DropTrivial(const SimMesh& mesh, const AxisGroup& axes) {
  AxisGroup out;
  for (const std::string& axis : axes) {
    if (mesh.SizeOf(axis) > 1) out.push_back(axis);
  }
  return out;
}

bool IsPrefix(const SimMesh& mesh, const AxisGroup& prefix,
              const AxisGroup& whole) {
  const AxisGroup a = DropTrivial(mesh, prefix);
  const AxisGroup b = DropTrivial(mesh, whole);
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace shardc::exec
