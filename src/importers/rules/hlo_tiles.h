// Finds the spec that places the tiles of a tensor on given devices.
#ifndef SHARDC_IMPORTERS_RULES_HLO_TILES_H_
#define SHARDC_IMPORTERS_RULES_HLO_TILES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/mesh.h"
#include "model/spec.h"

namespace shardc::imports {

struct Tiles {
  // The number of tiles along each dimension. If several devices have the same
  // tile (`last_tile_dim_replicate`), the last element is the number of copies
  // of each tile.
  const std::vector<int64_t>& dims;
  // For each tile, the position in the mesh of the device that has the tile.
  const std::vector<int64_t>& devices;
  size_t rank = 0;  // rank of the tensor
};

// Returns the spec over the mesh that places each tile on its device, or
// nullopt if no spec does this. The number of tiles must equal the number of
// devices of the mesh.
std::optional<Spec> SpecOfTiles(const Mesh& mesh, const Tiles& tiles);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_HLO_TILES_H_
