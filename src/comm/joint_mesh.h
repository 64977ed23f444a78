// Two meshes over the same devices, as one mesh in whose axes the specs of
// both can be written.
#ifndef SHARDC_COMM_JOINT_MESH_H_
#define SHARDC_COMM_JOINT_MESH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/spec.h"

namespace shardc {

class JointMesh {
 public:
  // Nothing if the meshes have different numbers of devices, if one has
  // several slices, or if no common division of the device numbers exists
  // (2 x 6 and 4 x 3 devices).
  static std::optional<JointMesh> Of(const Mesh& before, const Mesh& after);

  const Mesh& mesh() const { return mesh_; }
  // The spec in axes of mesh(); axes that the mesh lacks are left out.
  Spec OfBefore(const Spec& spec) const;
  Spec OfAfter(const Spec& spec) const;
  // Axes of mesh(), as the axes of the first mesh that they are parts of.
  AxisGroup NamesBefore(const AxisGroup& joint) const;

 private:
  // For each axis of a mesh, its axes in mesh_, most significant first.
  using Parts = std::vector<AxisGroup>;
  static Spec Rewrite(const Mesh& mesh, const Parts& parts, const Spec& spec);

  Mesh mesh_;
  Mesh before_, after_;
  Parts parts_before_, parts_after_;
};

// Elements that each device sends, by its number, when a tensor changes from a
// spec on one mesh to a spec on another one over the same devices. Both specs
// divide the shape.
std::vector<int64_t> SentElements(const Mesh& before, const Mesh& after,
                                  const Shape& shape, const Spec& from,
                                  const Spec& to);

}  // namespace shardc

#endif  // SHARDC_COMM_JOINT_MESH_H_
