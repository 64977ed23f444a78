// A change of spec: whether anything moves, by which collective, and how many
// elements.
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

// The list without the axes of size 1 (and those the mesh lacks).
AxisGroup DropTrivial(const Mesh& mesh, const AxisGroup& axes);
// Whether `prefix` is the beginning of `whole`, axes of size 1 dropped: a
// slice along `whole` then lies in the one along `prefix`.
bool IsPrefix(const Mesh& mesh, const AxisGroup& prefix,
              const AxisGroup& whole);

// Over the same axes in any order; axes of size 1 do not count. Shards are
// then the same, though perhaps on other devices.
bool SplitAlike(const Mesh& mesh, const AxisGroup& a, const AxisGroup& b);
// ... in every dimension; those past a spec's end are whole.
bool SplitAlike(const Mesh& mesh, const Spec& a, const Spec& b);

// How a move is charged; `axes` are those whose use changes.
struct SpecMove {
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
};
// all_gather where axes only leave, all_to_all where one changes its
// dimension, ppermute where axes only change order or are exchanged for
// others. Nothing where every device has what it needs and cuts its slice.
// Both specs have an entry for every dimension.
std::optional<SpecMove> ClassifyMove(const Mesh& mesh, const Spec& from,
                                     const Spec& to);

// Elements that all devices together lack when a tensor goes from one legal
// layout to another: each device's target outside its source slice.
int64_t MovedElements(const Mesh& mesh, const Shape& shape, const Spec& from,
                      const Spec& to);
// The same by the device that sends them: a slice's holders take turns, in
// ascending order, with the devices that lack some of it.
std::vector<int64_t> SentElements(const Mesh& mesh, const Shape& shape,
                                  const Spec& from, const Spec& to);

}  // namespace shardc

#endif  // SHARDC_COMM_RESHARD_H_
