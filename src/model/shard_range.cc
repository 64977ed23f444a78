// Divides a dimension into shards, one axis after the other. Over one axis of
// size n, a shard has ceil(size / n) elements, as in torch.chunk. If n does not
// divide the size, the last shards have fewer elements, or none. The next axis
// of the dimension divides each of these shards in the same way, as DTensor
// does for several placements `Shard(dim)` in the order of the mesh:
//
//   10 rows over [a 2, b 4]: a divides them into 0:5 and 5:10, and b divides
//   these into 0:2, 2:4, 4:5, 5:5 and 5:7, 7:9, 9:10, 10:10
//
// A shard over [a, b] is thus always a part of the shard over [a]. A single
// division into a * b = 8 parts would give 0:2, 2:4, 4:6 and so on, and the
// fourth part would need rows of both shards over [a]. The largest shard has
// the same size in both, because
// ceil(ceil(size / a) / b) = ceil(size / (a * b)).
#include "model/shard_range.h"

#include <algorithm>
#include <optional>

#include "source/size.h"

namespace shardc {
namespace {

// Narrows a range to part `index` of its `parts` parts.
ShardRange PartOf(const ShardRange& range, int64_t parts, int64_t index) {
  const int64_t share = ShareOf(range.size, parts);
  // `index` * `share` may overflow if the range has fewer elements than parts.
  if (share > 0 && index >= ShareOf(range.size, share)) {
    return {range.end(), 0};
  }
  const int64_t begin = index * share;
  return {range.begin + begin, std::min(share, range.size - begin)};
}

}  // namespace

std::vector<int64_t> AxisSizes(const Mesh& mesh, const AxisGroup& group) {
  std::vector<int64_t> out;
  out.reserve(group.size());
  for (const std::string& axis : group) out.push_back(mesh.SizeOf(axis));
  return out;
}

ShardRange RangeOfShard(int64_t size, std::span<const int64_t> axis_sizes,
                        int64_t index) {
  int64_t inner = 1;  // the product of the sizes of the axes after this one
  for (const int64_t axis : axis_sizes) inner *= axis;
  ShardRange out{0, size};
  for (const int64_t axis : axis_sizes) {
    inner /= axis;
    out = PartOf(out, axis, index / inner);
    index %= inner;
  }
  return out;
}

ShardRange RangeAlong(const Mesh& mesh, std::span<const int64_t> coordinates,
                      const AxisGroup& group, int64_t size) {
  ShardRange out{0, size};
  for (const std::string& axis : group) {
    const auto digit = mesh.FindDigit(axis);
    if (digit) {
      out = PartOf(out, digit->size, digit->Of(coordinates[digit->axis]));
    }
  }
  return out;
}

Shape ShardShape(const Mesh& mesh, Shape shape, const Spec& spec) {
  for (size_t d = 0; d < shape.size() && d < spec.size(); ++d) {
    shape[d] = ShareOf(shape[d], mesh.Parts(spec[d]).value_or(1));
  }
  return shape;
}

std::vector<size_t> UnevenDims(const Mesh& mesh, const Shape& shape,
                               const Spec& spec) {
  std::vector<size_t> out;
  for (size_t d = 0; d < std::min(shape.size(), spec.size()); ++d) {
    const auto parts = mesh.Parts(spec[d]);
    if (shape[d] != 0 && (!parts || shape[d] % *parts != 0)) out.push_back(d);
  }
  return out;
}

}  // namespace shardc
