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
#include "model/spec.h"

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

}  // namespace shardc

#endif  // SHARDC_COMM_RESHARD_H_
