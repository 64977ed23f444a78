#include "checkpoint/tree_copy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace shardc {
namespace {

stored::Array Grid(Shape shape, Shape chunk, int64_t element_bytes) {
  stored::Array out;
  out.shape = std::move(shape);
  out.chunk = std::move(chunk);
  out.element_bytes = element_bytes;
  return out;
}

// Returns an array with the boxes of a grid as pieces in random order.
stored::Array InPieces(const stored::Array& grid, unsigned seed) {
  stored::Array out = grid;
  for (int64_t i = 0; i < grid.Chunks(); ++i) {
    out.pieces.push_back(grid.BoxOf(i));
  }
  std::shuffle(out.pieces.begin(), out.pieces.end(), std::mt19937(seed));
  return out;
}

// Checks that each chunk is in exactly one tile, that the tile contains the
// chunk's box, and that tiles contain no other elements.
void CheckCover(const stored::Array& array, int64_t most_bytes) {
  const Tiles tiles(array, most_bytes);
  std::vector<int> seen(static_cast<size_t>(array.Chunks()), 0);
  for (int64_t i = 0; i < tiles.count(); ++i) {
    const Tile tile = tiles.At(i);
    int64_t units = 0, bytes = 0;
    for (const int64_t chunk : tile.chunks) {
      ++seen[static_cast<size_t>(chunk)];
      const Region box = RegionOf(array.BoxOf(chunk));
      units += box.Units();
      bytes += box.Units() * array.element_bytes;
      CHECK(Region::Intersect(box, tile.region).Units() == box.Units());
    }
    CHECK(units == tile.region.Units());
    CHECK((bytes <= most_bytes || tile.chunks.size() == 1));
  }
  CHECK(seen == std::vector<int>(seen.size(), 1));
}

TEST_CASE("every chunk is in one tile") {
  for (const stored::Array& grid :
       {Grid({10, 7}, {3, 2}, 4), Grid({8192, 4096}, {4096, 1024}, 4),
        Grid({5}, {2}, 1), Grid({4, 3, 6}, {2, 3, 1}, 2),
        Grid({6, 6}, {6, 6}, 4)}) {
    for (const int64_t most : {1, 100, 1 << 20, 1 << 28}) {
      CAPTURE(most);
      CheckCover(grid, most);
      CheckCover(InPieces(grid, 3), most);
    }
  }
  // If boxes do not form a grid, each is a tile.
  stored::Array uneven = Grid({4, 4}, {}, 4);
  uneven.pieces = {{{0, 0}, {4, 2}}, {{0, 2}, {1, 2}}, {{1, 2}, {3, 2}}};
  CheckCover(uneven, 1 << 20);
  CHECK(Tiles(uneven, 1 << 20).count() == 3);
}

TEST_CASE("a tile takes in chunks from the last dimension on") {
  // The example of tree_copy.cc: with 64 MiB, a tile is 4 chunks of 16 MiB with
  // the same rows.
  const Tiles tiles(Grid({8192, 4096}, {4096, 1024}, 4), int64_t{64} << 20);
  CHECK(tiles.count() == 2);
  CHECK(tiles.At(1).chunks == std::vector<int64_t>{4, 5, 6, 7});
  CHECK(tiles.At(1).region.begin == std::vector<int64_t>{4096, 0});
  CHECK(tiles.At(1).region.end == std::vector<int64_t>{8192, 4096});
  // With one byte less, a tile has at most three of the four chunks.
  const Tiles fewer(Grid({8192, 4096}, {4096, 1024}, 4),
                    (int64_t{64} << 20) - 1);
  CHECK(fewer.count() == 4);
  CHECK(fewer.At(0).chunks.size() == 3);
  CHECK(fewer.At(1).chunks.size() == 1);
  CHECK(Tiles(Grid({8}, {8}, 4), 1).count() == 1);
}

// Returns the slabs of a region, such as "0,0-2,4 2,0-4,4".
std::string Slabs(const Region& region, int64_t most) {
  std::string out;
  const auto text = [](const std::vector<int64_t>& at) {
    std::string list;
    for (const int64_t x : at) {
      list += (list.empty() ? "" : ",") + std::to_string(x);
    }
    return list;
  };
  CHECK(ForEachSlab(region, most, [&](const Region& slab) {
    out += (out.empty() ? "" : " ") + text(slab.begin) + "-" + text(slab.end);
    return true;
  }));
  return out;
}

TEST_CASE("a region is visited in slabs of at most so many units, in order") {
  const Region region{{0, 2}, {3, 6}};
  CHECK(Slabs(region, 100) == "0,2-3,6");
  CHECK(Slabs(region, 8) == "0,2-2,6 2,2-3,6");
  CHECK(Slabs(region, 4) == "0,2-1,6 1,2-2,6 2,2-3,6");
  CHECK(Slabs(region, 3) == "0,2-1,5 0,5-1,6 1,2-2,5 1,5-2,6 2,2-3,5 2,5-3,6");
  CHECK(Slabs({{0, 0, 0}, {2, 2, 2}}, 2) ==
        "0,0,0-1,1,2 0,1,0-1,2,2 1,0,0-2,1,2 1,1,0-2,2,2");
  CHECK(Slabs({{0}, {2}}, 0) == "0-1 1-2");
  CHECK(Slabs({{1, 1}, {1, 4}}, 5).empty());
  int visits = 0;
  CHECK_FALSE(
      ForEachSlab(region, 4, [&](const Region&) { return ++visits < 2; }));
  CHECK(visits == 2);
}

}  // namespace
}  // namespace shardc
