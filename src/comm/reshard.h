// Computes the cost of a change of a tensor's spec: whether data moves, by
// which collective, and how many elements.
#ifndef SHARDC_COMM_RESHARD_H_
#define SHARDC_COMM_RESHARD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/collective.h"
#include "model/manifest.h"
#include "model/mesh.h"

namespace shardc {

// Returns `axes` without axes that shard nothing: axes of size 1, and axes that
// the mesh lacks.
AxisGroup DropTrivial(const Mesh& mesh, const AxisGroup& axes);
// Returns whether `whole` begins with the axes of `prefix`; axes that shard
// nothing (DropTrivial) are ignored in both. Each block over `whole` is then
// part of a block over `prefix`.
bool IsPrefix(const Mesh& mesh, const AxisGroup& prefix,
              const AxisGroup& whole);

// Returns whether two dimensions are sharded over the same axes, in any order;
// axes that shard nothing are ignored. Their shards then have the same size,
// but a device may hold different shards of them.
bool SameSplit(const Mesh& mesh, const AxisGroup& a, const AxisGroup& b);
// Returns whether SameSplit holds in every dimension; dimensions beyond a
// spec's end are unsharded.
bool SameSplit(const Mesh& mesh, const Spec& a, const Spec& b);

// The collective that a change of spec needs, and the axes over which it runs.
struct SpecMove {
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
};
// Returns the collective of a change of spec. Returns nullopt if each dimension
// keeps its axes and only gains axes at the end of its list, because every
// device then has the block that it needs. Otherwise the collective is an
// all_to_all if an axis moves to another dimension, an all_gather if each
// dimension only loses or gains axes at the end of its list, and a ppermute in
// all other cases.
std::optional<SpecMove> ClassifyMove(const Mesh& mesh, const Spec& from,
                                     const Spec& to);

// Returns the number of elements that each device sends. If several devices
// hold the same block, they take turns in sending it, in ascending order of
// their numbers. Shards may be uneven.
std::vector<int64_t> SentElements(const Mesh& mesh, const Shape& shape,
                                  const Spec& from, const Spec& to);

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

#endif  // SHARDC_COMM_RESHARD_H_
