// Resharding: whether a change of spec moves anything, by which collective, and
// how many elements.
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

// The list without axes of size 1 and axes that the mesh lacks.
AxisGroup DropTrivial(const Mesh& mesh, const AxisGroup& axes);
// Whether `prefix` is the beginning of `whole`, axes of size 1 left out: a
// block over `whole` is then part of the block over `prefix`.
bool IsPrefix(const Mesh& mesh, const AxisGroup& prefix,
              const AxisGroup& whole);

// Whether both have the same axes in any order; axes of size 1 do not count.
// Shards are then the same, though perhaps on other devices.
bool SplitAlike(const Mesh& mesh, const AxisGroup& a, const AxisGroup& b);
// ... in every dimension; dimensions beyond a spec's end are unsharded.
bool SplitAlike(const Mesh& mesh, const Spec& a, const Spec& b);

// The collective that a change of spec costs; `axes` are those whose use
// changes.
struct SpecMove {
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
};
// all_gather if axes are only dropped, all_to_all if an axis changes its
// dimension, ppermute if axes change their order or are replaced by others.
// Nothing if every device has the block that it needs. Both specs have an entry
// for every dimension.
std::optional<SpecMove> ClassifyMove(const Mesh& mesh, const Spec& from,
                                     const Spec& to);

// Elements that all devices together lack when a tensor changes from one legal
// spec to another: the part of each device's new block outside its old one.
int64_t MovedElements(const Mesh& mesh, const Shape& shape, const Spec& from,
                      const Spec& to);
// Elements that each device sends. If several devices hold a block, they take
// turns, in ascending order, as its senders.
std::vector<int64_t> SentElements(const Mesh& mesh, const Shape& shape,
                                  const Spec& from, const Spec& to);

}  // namespace shardc

#endif  // SHARDC_COMM_RESHARD_H_
