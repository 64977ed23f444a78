// Groups the chunks of a stored array into tiles. A tile is a box of complete
// chunks. It is large enough for long runs in the outputs, and small enough for
// the memory.
#ifndef SHARDC_CHECKPOINT_TILES_H_
#define SHARDC_CHECKPOINT_TILES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "stored/box.h"
#include "stored/region.h"
#include "stored/tree.h"

namespace shardc {

struct Tile {
  Region region;  // the region of the array that the tile covers
  std::vector<int64_t> chunks;
};

class Tiles {
 public:
  // Divides the array into tiles of at most `most_bytes` bytes. A single chunk
  // that is larger is a tile too.
  Tiles(const stored::Array& array, int64_t most_bytes);

  int64_t count() const { return count_; }
  Tile At(int64_t index) const;

 private:
  bool SetEdges();
  void Grow(int64_t most_bytes);

  const stored::Array& array_;
  // The starts of the chunks along each dimension, followed by the array's end.
  // Empty if the chunks form no grid or if there is only one chunk; then each
  // chunk is a tile.
  std::vector<std::vector<int64_t>> edges_;
  // The index of the chunk in each cell of the grid. Empty if cells and chunks
  // are numbered in the same order.
  std::vector<int64_t> chunk_of_cell_;
  std::vector<int64_t> span_;  // number of cells of a tile along each dimension
  int64_t count_ = 0;
};

// Divides the region into consecutive parts (slabs) of at most `most_units`
// units (elements or bytes), and calls `visit` for each in row-major order. If
// `visit` returns false, stops and returns false.
bool ForEachSlab(const Region& region, int64_t most_units,
                 const std::function<bool(const Region& slab)>& visit);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TILES_H_
