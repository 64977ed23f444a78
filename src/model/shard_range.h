// Computes which elements of a dimension a device holds. Plans, checkpoints,
// costs and exports all call it, so that they agree on every shard.
#ifndef SHARDC_MODEL_SHARD_RANGE_H_
#define SHARDC_MODEL_SHARD_RANGE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/spec.h"

namespace shardc {

// The elements of one dimension that a shard has.
struct ShardRange {
  int64_t begin = 0;
  int64_t size = 0;

  int64_t end() const { return begin + size; }
  bool operator==(const ShardRange&) const = default;
};

// Returns the sizes of a group's axes, first to last. An axis that the mesh
// lacks has size 1.
std::vector<int64_t> AxisSizes(const Mesh& mesh, const AxisGroup& group);

// Returns the range of shard number `index` of a dimension of `size` elements.
// `axis_sizes` are the sizes of the axes that shard the dimension, and the
// digits of `index` are the coordinates along these axes, the first axis being
// the most significant. If the axes do not divide the size, the last shards are
// shorter or empty. The first shard is never shorter than another one.
ShardRange RangeOfShard(int64_t size, std::span<const int64_t> axis_sizes,
                        int64_t index);

// Returns the range of a device that has these coordinates in the mesh.
ShardRange RangeAlong(const Mesh& mesh, std::span<const int64_t> coordinates,
                      const AxisGroup& group, int64_t size);

// Returns the shape of the largest shard, which is that of the device whose
// coordinates are all 0. An axis that the mesh lacks has size 1.
Shape ShardShape(const Mesh& mesh, Shape shape, const Spec& spec);

// Returns the dimensions that their axes do not divide, in ascending order. If
// there are none, all shards have the same shape.
std::vector<size_t> UnevenDims(const Mesh& mesh, const Shape& shape,
                               const Spec& spec);
inline bool DividesEvenly(const Mesh& mesh, const Shape& shape,
                          const Spec& spec) {
  return UnevenDims(mesh, shape, spec).empty();
}

}  // namespace shardc

#endif  // SHARDC_MODEL_SHARD_RANGE_H_
