// Infers the mesh axes that shard a tensor from an XLA sharding, which states
// the device of each tile (shard). If two tiles are neighbours along a
// dimension, their devices differ along an axis that shards this dimension. In
// this example, the mesh has the axes a:2 and b:4:
//
//   {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
//   The four tiles are on devices 0 1 2 3, which differ only along b
//     ->  [b, null]
//
// A spec is accepted only if it places every tile on the same device as the
// sharding.
#include "importers/rules/hlo_tiles.h"

#include "model/mesh_layout.h"
#include "source/index.h"

namespace shardc::imports {
namespace {

// Finds the axes that shard one dimension, beginning with the minor axis.
// Suppose that the axes found so far split the dimension into n parts. Then
// compare tile 0 with the tile that is n steps after it. Their devices differ
// only in the coordinate on the next axis. Returns false if no axes split the
// dimension into `parts` parts.
bool GroupOf(const Mesh& mesh, int64_t parts, int64_t stride,
             const std::vector<int64_t>& devices, AxisGroup& group) {
  for (int64_t step = 1; step < parts;) {
    const int64_t device = devices[AsIndex(step * stride)];
    if (device < 0 || device >= mesh.devices) return false;
    const auto coordinates = CoordinatesOf(mesh, device);
    size_t axis = 0;
    while (axis < coordinates.size() && coordinates[axis] == 0) ++axis;
    if (axis == coordinates.size()) return false;
    group.insert(group.begin(), mesh.axes[axis].name);
    step *= mesh.axes[axis].size;
  }
  return mesh.Parts(group) == parts;
}

// A device's position in the mesh is a number with one digit for each axis. The
// digit of an axis is the coordinate on this axis, position / stride % size,
// where `size` is the size of the axis.
struct Digit {
  int64_t stride = 1, size = 1;
};

std::vector<Digit> DigitsOf(const Mesh& mesh, const AxisGroup& group) {
  std::vector<Digit> digits;
  for (const std::string& name : group) {
    Digit& digit = digits.emplace_back();
    for (const MeshAxis& axis : mesh.axes) {
      digit.stride *= axis.size;
      if (axis.name != name) continue;
      digit = {1, axis.size};
    }
  }
  return digits;
}

// Returns whether the spec places each tile on the device that the sharding
// states.
bool Holds(const Mesh& mesh, const Tiles& tiles, const Spec& spec) {
  std::vector<std::vector<Digit>> digits;
  for (const AxisGroup& group : spec) digits.push_back(DigitsOf(mesh, group));
  for (size_t tile = 0; tile < tiles.devices.size(); ++tile) {
    const int64_t device = tiles.devices[tile];
    if (device < 0 || device >= mesh.devices) return false;
    auto rest = static_cast<int64_t>(tile);
    for (size_t d = tiles.dims.size(); d > 0;) {
      --d;
      const int64_t tile_index = rest % tiles.dims[d];
      rest /= tiles.dims[d];
      if (d >= spec.size()) continue;
      int64_t index = 0;
      for (const Digit& digit : digits[d]) {
        index = index * digit.size + device / digit.stride % digit.size;
      }
      if (index != tile_index) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Spec> SpecOfTiles(const Mesh& mesh, const Tiles& tiles) {
  Spec spec(tiles.rank);
  auto stride = static_cast<int64_t>(tiles.devices.size());
  for (size_t d = 0; d < tiles.rank; ++d) {
    stride /= tiles.dims[d];
    if (!GroupOf(mesh, tiles.dims[d], stride, tiles.devices, spec[d])) {
      return std::nullopt;
    }
  }
  if (!Holds(mesh, tiles, spec)) return std::nullopt;
  return spec;
}

}  // namespace shardc::imports
