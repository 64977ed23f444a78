// Finds the joint mesh of two meshes over the same devices. Each axis of either
// mesh is a product of axes of the joint mesh.
//
// The devices of a mesh are numbered in row-major order of its axes. The place
// value of an axis is the product of the sizes of all axes to its right: the
// difference between the numbers of two neighbours along the axis. The place
// values of both meshes and the number of devices are sorted into one list.
// Each pair of neighbours in the list is one axis of the joint mesh, whose size
// is their quotient. For example:
//
//   dp=2 fsdp=16 tp=8   place values 128, 8, 1
//   fsdp=32 tp=8        place values 8, 1
//   joint, 256 devices  list 1, 8, 128, 256, so the axes are 2 x 16 x 8: the
//                       second mesh's fsdp is 2 x 16
#include "comm/joint_mesh.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "comm/sent.h"
#include "model/mesh_layout.h"

namespace shardc {
namespace {

// Returns the number of devices of a mesh, and then the place value of each
// axis (the product of the sizes of all axes to its right). The result for
// dp=2 fsdp=16 tp=8 is 256, 128, 8, 1.
std::vector<int64_t> PositionsOf(const Mesh& mesh) {
  std::vector<int64_t> out(mesh.axes.size() + 1, 1);
  for (size_t i = mesh.axes.size(); i > 0; --i) {
    out[i - 1] = out[i] * mesh.axes[i - 1].size;
  }
  return out;
}

}  // namespace

std::optional<JointMesh> JointMesh::Of(const Mesh& before, const Mesh& after) {
  if (before.devices != after.devices) return std::nullopt;
  if (before.slices > 1 || after.slices > 1) return std::nullopt;
  const std::vector<int64_t> first = PositionsOf(before);
  const std::vector<int64_t> second = PositionsOf(after);
  std::set<int64_t> positions(first.begin(), first.end());
  positions.insert(second.begin(), second.end());
  JointMesh out;
  out.before_ = before;
  out.after_ = after;
  out.mesh_.devices = before.devices;
  // The place value of each axis of out.mesh_: the product of the sizes of all
  // axes to its right.
  std::vector<int64_t> low;
  int64_t above = 0;
  for (auto at = positions.rbegin(); at != positions.rend(); ++at) {
    if (above > 0) {
      if (above % *at != 0) return std::nullopt;
      out.mesh_.axes.push_back({std::to_string(low.size()), above / *at});
      low.push_back(*at);
    }
    above = *at;
  }
  const auto parts = [&](const std::vector<int64_t>& of) {
    Parts groups;
    for (size_t i = 0; i + 1 < of.size(); ++i) {
      AxisGroup& group = groups.emplace_back();
      for (size_t j = 0; j < low.size(); ++j) {
        if (low[j] >= of[i + 1] && low[j] < of[i]) {
          group.push_back(out.mesh_.axes[j].name);
        }
      }
    }
    return groups;
  };
  out.parts_before_ = parts(first);
  out.parts_after_ = parts(second);
  return out;
}

Spec JointMesh::Rewrite(const Mesh& mesh, const Parts& parts,
                        const Spec& spec) {
  Spec out;
  for (const AxisGroup& group : spec) {
    AxisGroup& to = out.emplace_back();
    for (const std::string& axis : group) {
      const auto at = mesh.Find(axis);
      if (at) to.insert(to.end(), parts[*at].begin(), parts[*at].end());
    }
  }
  return out;
}

Spec JointMesh::OfBefore(const Spec& spec) const {
  return Rewrite(before_, parts_before_, spec);
}

Spec JointMesh::OfAfter(const Spec& spec) const {
  return Rewrite(after_, parts_after_, spec);
}

AxisGroup JointMesh::NamesBefore(const AxisGroup& joint) const {
  AxisGroup out;
  for (size_t i = 0; i < parts_before_.size(); ++i) {
    const bool part =
        std::any_of(joint.begin(), joint.end(), [&](const std::string& axis) {
          return std::find(parts_before_[i].begin(), parts_before_[i].end(),
                           axis) != parts_before_[i].end();
        });
    if (part) out.push_back(before_.axes[i].name);
  }
  return out;
}

std::vector<int64_t> SentElements(const Mesh& before, const Mesh& after,
                                  const Shape& shape, const Spec& from,
                                  const Spec& to) {
  const auto of_before = [&](int64_t device) {
    return PlaceOfDevice(before, device).coordinates;
  };
  const auto of_after = [&](int64_t device) {
    return PlaceOfDevice(after, device).coordinates;
  };
  return CountSent({before, from, of_before}, {after, to, of_after}, shape);
}

}  // namespace shardc
