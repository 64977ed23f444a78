// Sub-axes: factors of a mesh axis, in the notation of Shardy. A dimension may
// be sharded over only a part of an axis. For example, 8 KV heads on an axis of
// 16 devices are sharded over the first factor of 16 = 8 * 2, so that each head
// is on two devices:
//
//   tp:16 as 8 * 2    device i has coordinate i / 2 on `tp:(1)8`, and
//                     coordinate i % 2 on `tp:(8)2`
//
// `tp:(8)2` is the factor of size 2 of which the more significant factors have
// the product 8. Names of mesh axes cannot contain `:`.
#ifndef SHARDC_MODEL_SUB_AXIS_H_
#define SHARDC_MODEL_SUB_AXIS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/mesh.h"
#include "model/spec.h"

namespace shardc {

struct SubAxis {
  std::string_view axis;  // the mesh axis
  // The product of the sizes of the more significant factors.
  int64_t before = 1;
  int64_t size = 1;
  // Whether no less significant factor follows. It is known only in a refined
  // mesh (RefinedMesh()), whose names end with a dot there.
  bool last = false;
};
// Returns the parts of a name such as `tp:(1)8`; nullopt for any other name.
std::optional<SubAxis> ParseSubAxis(std::string_view name);
std::string SubAxisName(std::string_view axis, int64_t before, int64_t size);
// Returns `tp` for `tp:(1)8`, and any other name as it is.
std::string_view WholeAxis(std::string_view name);
bool HasSubAxis(const AxisGroup& group);
bool HasSubAxis(const Spec& spec);

// Returns a mesh over the same devices in which each axis that has sub-axes in
// `specs` is replaced by its factors, so that every spec can be written with
// complete axes of the mesh. Returns the mesh itself if no spec has a sub-axis.
// Returns nullopt if no common factors exist, as for sub-axes of 4 and of 6
// devices of one axis, or if the factors divide the axis's slices.
std::optional<Mesh> RefinedMesh(const Mesh& mesh, std::span<const Spec> specs);

// Returns whether some axis of the mesh is a factor of an axis.
bool IsRefined(const Mesh& mesh);

// Rewrites names of axes and sub-axes as the factors in a refined mesh. Names
// that the mesh has, and axes that it lacks, stay as they are.
AxisGroup RefinedGroup(const Mesh& refined, const AxisGroup& group);
Spec RefinedSpec(const Mesh& refined, const Spec& spec);

// Joins factors that follow each other: [`tp:(1)8`, `tp:(8)2.`] becomes [`tp`].
// It is the inverse of RefinedGroup(), for output.
AxisGroup JoinedGroup(const AxisGroup& group);
// Returns the mesh whose axes are joined.
Mesh JoinedMesh(const Mesh& refined);

// Returns the axes that divide the KV heads over the devices of `axes`, so that
// device i of n has head i * heads / n, rounded down. If the devices divide the
// heads, these are the axes. Otherwise they are the leading axes and the
// leading factor of an axis whose product is the number of heads. Returns
// nullopt if the number of devices is not a multiple of the number of heads, or
// if no leading factors have the product:
//
//   8 heads over tp:4    [tp]            2 heads on each device
//   8 heads over tp:16   [tp:(1)8]       each head on 2 devices
//   1 head over tp:16    []
//   8 heads over tp:12   nullopt
std::optional<AxisGroup> KvHeadAxes(const Mesh& mesh, const AxisGroup& axes,
                                    int64_t heads);

}  // namespace shardc

#endif  // SHARDC_MODEL_SUB_AXIS_H_
