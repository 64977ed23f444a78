// Combines two meshes over the same devices into one mesh, in whose axes specs
// of either mesh can be written.
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
  // Returns the joint mesh of two meshes. Returns nullopt if they have
  // different numbers of devices, if one has several slices, or if no mesh
  // refines both. For example, no mesh refines both 2 x 6 and 3 x 4 devices,
  // because 6 is not a multiple of 4.
  static std::optional<JointMesh> Of(const Mesh& before, const Mesh& after);

  const Mesh& mesh() const { return mesh_; }
  // OfBefore takes a spec of the first mesh, and OfAfter a spec of the second
  // mesh. Both return a spec of the same sharding that names axes of mesh()
  // instead. Axes that the spec's own mesh lacks are left out. A spec that does
  // not divide a dimension may have other shards over the axes of mesh().
  Spec OfBefore(const Spec& spec) const;
  Spec OfAfter(const Spec& spec) const;
  // `joint` names axes of mesh(). Returns the axes of the first mesh that have
  // one of them as a factor. For example, fsdp=32 has the factors 2 and 16.
  AxisGroup NamesBefore(const AxisGroup& joint) const;

 private:
  // For each axis of a mesh, the axes of mesh_ that it consists of, most
  // significant first.
  using Parts = std::vector<AxisGroup>;
  static Spec Rewrite(const Mesh& mesh, const Parts& parts, const Spec& spec);

  Mesh mesh_;
  Mesh before_, after_;
  Parts parts_before_, parts_after_;
};

// Returns the number of elements that each device sends when a tensor is
// resharded from a spec on one mesh to a spec on another mesh over the same
// devices. Shards may be uneven.
std::vector<int64_t> SentElements(const Mesh& before, const Mesh& after,
                                  const Shape& shape, const Spec& from,
                                  const Spec& to);

}  // namespace shardc

#endif  // SHARDC_COMM_JOINT_MESH_H_
