// Groups the chunks of an array into tiles, so that outputs are written in long
// runs. Chunks that form a grid have common edges along each dimension. A tile
// starts as one chunk. It is extended by neighbours along the last dimension,
// then along the dimension before it and so on, until its elements are long
// contiguous runs of the array:
//
//   [8192, 4096] of F32 in chunks of [4096, 1024], 16 MiB each: a row of a
//   chunk has 4 KiB, so a tile is the 4 chunks with the same rows, 64 MiB
//
// If less memory is available, a tile has fewer chunks, and the outputs are
// written in shorter runs. Every chunk is in exactly one tile, so it is decoded
// only once.
#include "checkpoint/tiles.h"

#include <algorithm>
#include <set>

#include "source/checked.h"
#include "source/index.h"

namespace shardc {
namespace {

// Tiles are extended until a contiguous run has this many bytes. One system
// call for a run of this length is efficient.
constexpr int64_t kRunBytes = int64_t{1} << 20;

// Returns the sorted edges of all pieces along each dimension.
std::vector<std::vector<int64_t>> EdgesOf(const stored::Array& array) {
  std::vector<std::set<int64_t>> edges(array.shape.size());
  for (const Box& piece : array.pieces) {
    for (size_t dim = 0; dim < edges.size(); ++dim) {
      edges[dim].insert(piece.offset[dim]);
      edges[dim].insert(piece.offset[dim] + piece.shape[dim]);
    }
  }
  std::vector<std::vector<int64_t>> out;
  for (const auto& set : edges) out.emplace_back(set.begin(), set.end());
  return out;
}

}  // namespace

Tiles::Tiles(const stored::Array& array, int64_t most_bytes) : array_(array) {
  count_ = array.Chunks();
  if (count_ <= 1 || array.shape.empty() || !SetEdges()) {
    edges_.clear();
    return;
  }
  Grow(most_bytes);
}

bool Tiles::SetEdges() {
  const size_t rank = array_.shape.size();
  if (array_.pieces.empty()) {
    edges_.resize(rank);
    for (size_t dim = 0; dim < rank; ++dim) {
      for (int64_t at = 0; at < array_.shape[dim]; at += array_.chunk[dim]) {
        edges_[dim].push_back(at);
      }
      edges_[dim].push_back(array_.shape[dim]);
    }
    return true;
  }
  edges_ = EdgesOf(array_);
  int64_t cells = 1;
  for (const auto& edges : edges_) {
    cells *= static_cast<int64_t>(edges.size()) - 1;
    if (cells > count_) return false;
  }
  if (cells != count_) return false;
  chunk_of_cell_.assign(AsIndex(cells), -1);
  for (int64_t chunk = 0; chunk < count_; ++chunk) {
    const Box& piece = array_.pieces[AsIndex(chunk)];
    int64_t cell = 0;
    for (size_t dim = 0; dim < rank; ++dim) {
      const auto& edges = edges_[dim];
      const auto begin =
          std::lower_bound(edges.begin(), edges.end(), piece.offset[dim]);
      if (begin[1] != piece.offset[dim] + piece.shape[dim]) return false;
      cell = cell * (static_cast<int64_t>(edges.size()) - 1) +
             (begin - edges.begin());
    }
    if (chunk_of_cell_[AsIndex(cell)] >= 0) return false;
    chunk_of_cell_[AsIndex(cell)] = chunk;
  }
  return true;
}

void Tiles::Grow(int64_t most_bytes) {
  const size_t rank = edges_.size();
  // `extent` is the largest size of a chunk along each dimension, in elements.
  // `bytes` is the size of a tile of one chunk of this size.
  std::vector<int64_t> extent(rank, 0);
  int64_t bytes = array_.element_bytes;
  for (size_t dim = 0; dim < rank; ++dim) {
    for (size_t i = 0; i + 1 < edges_[dim].size(); ++i) {
      extent[dim] = std::max(extent[dim], edges_[dim][i + 1] - edges_[dim][i]);
    }
    bytes *= extent[dim];
  }
  span_.assign(rank, 1);
  // The number of bytes of a tile that are contiguous in the array.
  int64_t run = array_.element_bytes;
  for (size_t dim = rank; dim > 0;) {
    --dim;
    const auto cells = static_cast<int64_t>(edges_[dim].size()) - 1;
    const int64_t wanted =
        CeilDiv(kRunBytes, std::max<int64_t>(run * extent[dim], 1));
    const int64_t fitting = most_bytes / std::max<int64_t>(bytes, 1);
    span_[dim] = std::clamp<int64_t>(std::min(wanted, fitting), 1, cells);
    if (span_[dim] < cells) break;
    bytes *= cells;
    run *= array_.shape[dim];
  }
  count_ = 1;
  for (size_t dim = 0; dim < rank; ++dim) {
    const auto cells = static_cast<int64_t>(edges_[dim].size()) - 1;
    count_ *= CeilDiv(cells, span_[dim]);
  }
}

Tile Tiles::At(int64_t index) const {
  if (edges_.empty()) return {RegionOf(array_.BoxOf(index)), {index}};
  const size_t rank = edges_.size();
  Tile out{{std::vector<int64_t>(rank), std::vector<int64_t>(rank)}, {0}};
  std::vector<int64_t> first(rank), last(rank);
  for (size_t dim = rank; dim > 0;) {
    --dim;
    const auto cells = static_cast<int64_t>(edges_[dim].size()) - 1;
    const int64_t tiles = CeilDiv(cells, span_[dim]);
    first[dim] = index % tiles * span_[dim];
    last[dim] = std::min(first[dim] + span_[dim], cells);
    index /= tiles;
    out.region.begin[dim] = edges_[dim][AsIndex(first[dim])];
    out.region.end[dim] = edges_[dim][AsIndex(last[dim])];
  }
  for (size_t dim = 0; dim < rank; ++dim) {
    const auto cells = static_cast<int64_t>(edges_[dim].size()) - 1;
    std::vector<int64_t> chunks;
    for (const int64_t before : out.chunks) {
      for (int64_t i = first[dim]; i < last[dim]; ++i) {
        chunks.push_back(before * cells + i);
      }
    }
    out.chunks = std::move(chunks);
  }
  if (!chunk_of_cell_.empty()) {
    for (int64_t& chunk : out.chunks) chunk = chunk_of_cell_[AsIndex(chunk)];
  }
  return out;
}

bool ForEachSlab(const Region& region, int64_t most_units,
                 const std::function<bool(const Region& slab)>& visit) {
  if (region.Empty()) return true;
  const auto size = [&](size_t dim) {
    return region.end[dim] - region.begin[dim];
  };
  size_t dim = region.begin.size() - 1;
  int64_t inner = 1;
  while (dim > 0 && size(dim) <= most_units / inner) {
    inner *= size(dim);
    --dim;
  }
  const int64_t step = std::max<int64_t>(most_units / inner, 1);
  Region slab = region;
  for (size_t i = 0; i < dim; ++i) slab.end[i] = slab.begin[i] + 1;
  for (;;) {
    for (int64_t at = region.begin[dim]; at < region.end[dim]; at += step) {
      slab.begin[dim] = at;
      slab.end[dim] = std::min(at + step, region.end[dim]);
      if (!visit(slab)) return false;
    }
    size_t i = dim;
    while (i > 0 && slab.end[i - 1] == region.end[i - 1]) {
      --i;
      slab.begin[i] = region.begin[i];
      slab.end[i] = region.begin[i] + 1;
    }
    if (i == 0) return true;
    ++slab.begin[i - 1], ++slab.end[i - 1];
  }
}

}  // namespace shardc
