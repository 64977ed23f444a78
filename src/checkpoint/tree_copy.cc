// Copies the arrays of a stored tree. Each worker thread copies one tile (a
// group of chunks) at a time. The chunks of a tile are decoded into one buffer.
// Each part of an output that overlaps the tile is then written from this
// buffer, in slabs of limited size:
//
//   w [8192, 4096] of F32 in chunks of [4096, 1024], to 2 parts [8192, 2048]:
//   tile 0 is the 4 chunks with rows 0 to 4095; for each part, slabs of 512
//   rows (4 MiB) are gathered from the tile, and each slab is written as a run
//
// Before a worker decodes the chunks of a tile, it reserves the memory for the
// tile. It waits while other workers use too much memory, so large chunks are
// decoded one at a time.
#include "checkpoint/tree_copy.h"

#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/copy.h"
#include "checkpoint/transfer.h"
#include "floats/convert.h"
#include "model/mesh_layout.h"
#include "model/name.h"
#include "source/file.h"
#include "source/input_file.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/box.h"

namespace shardc {
namespace {

// The largest number of bytes that is assumed for a chunk when memory is
// calculated. Readers refuse larger chunks. With this limit the product in
// ChunkMemory does not overflow.
constexpr int64_t kMostChunkBytes = int64_t{1} << 60;
constexpr int64_t kSlab = int64_t{4} << 20;
// The memory that a worker needs in addition to its tile, for slabs that are
// gathered and cast.
constexpr int64_t kScratch = 3 * kSlab;

int64_t StoredBytes(const stored::Array& array) {
  int64_t elements = 0;
  if (array.pieces.empty()) {
    elements = Box{array.chunk, array.chunk}.Elements();
  }
  for (const Box& piece : array.pieces) {
    elements = std::max(elements, piece.Elements());
  }
  const auto bytes = CheckedMul(elements, array.element_bytes);
  return std::min(bytes.value_or(kMostChunkBytes), kMostChunkBytes);
}

// The memory that all worker threads share, in bytes.
class Budget {
 public:
  explicit Budget(int64_t bytes) : free_(bytes), total_(bytes) {}
  // Waits until `bytes` are free, and reserves them. A request for more than
  // the total waits until no worker uses any memory.
  void Take(int64_t bytes) {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return free_ >= bytes || free_ == total_; });
    free_ -= bytes;
  }
  void Return(int64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      free_ += bytes;
    }
    returned_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable returned_;
  int64_t free_ = 0;
  const int64_t total_ = 0;
};

class Reserved {
 public:
  Reserved(Budget& budget, int64_t bytes) : budget_(budget), bytes_(bytes) {
    budget_.Take(bytes_);
  }
  ~Reserved() { budget_.Return(bytes_); }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;

 private:
  Budget& budget_;
  int64_t bytes_ = 0;
};

struct ArrayCopy {
  size_t tensor = 0;
  size_t array = 0;
  Tiles tiles;
  std::vector<Region> part_regions = {};
  PartsInWork parts = {};
  int64_t blocks() const { return tiles.count(); }
};

class TreeCopier {
 public:
  TreeCopier(const Transfer& transfer, const std::vector<CopyTarget>& files,
             Checksums& checksums, const CopyOptions& options)
      : transfer_(transfer),
        tree_(*transfer.tree),
        writer_(transfer, files, checksums, options),
        threads_(std::max(options.threads, 1)),
        memory_(options.tree_bytes),
        budget_(options.tree_bytes) {}

  bool Run(Findings& findings) {
    BlockQueue<ArrayCopy, Scratch> blocks(
        transfer_.tensors.size(), [this](size_t index) { return Begin(index); },
        [this](ArrayCopy& work, int64_t tile, Scratch& scratch,
               Findings& found) {
          return CopyTile(work, tile, scratch, found);
        });
    return blocks.Run(threads_, findings);
  }

 private:
  struct Scratch {
    std::vector<char> gathered;
    std::vector<char> cast;
  };

  // Begins the copy of an array. Returns null if no output needs the array.
  std::shared_ptr<ArrayCopy> Begin(size_t index) {
    if (!writer_.Any(index)) return nullptr;
    const TransferTensor& tensor = transfer_.tensors[index];
    const size_t array = *tensor.array;
    const stored::Array& stored = tree_.arrays[array];
    auto work = std::make_shared<ArrayCopy>(ArrayCopy{
        index, array, Tiles(stored, memory_ / threads_ - ChunkMemory(stored))});
    for (const Box& part : tensor.parts) {
      work->part_regions.push_back(RegionOf(part));
    }
    work->parts = writer_.Begin(index);
    return work;
  }

  // Returns the parts that overlap the region and must be written.
  static std::vector<size_t> PartsAt(const ArrayCopy& work,
                                     const Region& region) {
    std::vector<size_t> out;
    for (size_t part = 0; part < work.part_regions.size(); ++part) {
      if (work.parts.Wanted(part) &&
          Region::Overlap(work.part_regions[part], region)) {
        out.push_back(part);
      }
    }
    return out;
  }

  bool CopyTile(ArrayCopy& work, int64_t index, Scratch& scratch,
                Findings& findings) {
    const Tile tile = work.tiles.At(index);
    const std::vector<size_t> parts = PartsAt(work, tile.region);
    if (parts.empty()) return true;
    const stored::Array& array = tree_.arrays[work.array];
    const int64_t unit = array.element_bytes;
    const bool single = tile.chunks.size() == 1;
    const Reserved reserved(
        budget_,
        ChunkMemory(array) + (single ? 0 : tile.region.Units() * unit));
    std::string bytes;
    Region held = tile.region;
    if (single) {
      auto chunk = tree_.reader->Read(work.array, tile.chunks[0], findings);
      if (!chunk) return false;
      bytes = std::move(*chunk);
      held = stored::StoredRegionOf(array, tile.chunks[0]);
    } else {
      bytes.resize(AsIndex(tile.region.Units() * unit));
      for (const int64_t chunk : tile.chunks) {
        if (PartsAt(work, RegionOf(array.BoxOf(chunk))).empty()) continue;
        const auto read = tree_.reader->Read(work.array, chunk, findings);
        if (!read) return false;
        stored::CopyOfChunk(array, chunk, read->data(), held, bytes.data());
      }
    }
    return std::all_of(parts.begin(), parts.end(), [&](size_t part) {
      return WritePart(work, part, tile.region, held, bytes.data(), scratch,
                       findings);
    });
  }

  // Writes the elements that a part and a tile (a group of chunks) have in
  // common. `tile` is the region of the tile. `bytes` has the decoded elements
  // of the region `held` in row-major order. The two regions are equal, unless
  // the tile is a single chunk at the edge of the array. `held` then also
  // contains the chunk's padding.
  bool WritePart(ArrayCopy& work, size_t part, const Region& tile,
                 const Region& held, const char* bytes, Scratch& scratch,
                 Findings& findings) {
    const int64_t unit = tree_.arrays[work.array].element_bytes;
    const Region& full = work.part_regions[part];
    return ForEachSlab(
        Region::Intersect(full, tile), std::max<int64_t>(kSlab / unit, 1),
        [&](const Region& slab) {
          const char* from = bytes + held.OffsetOf(slab) * unit;
          if (!IsOneRun(slab, held)) {
            scratch.gathered.resize(AsIndex(slab.Units() * unit));
            CopyRegion(slab, held, bytes, slab, scratch.gathered.data(), unit);
            from = scratch.gathered.data();
          }
          return WriteSlab(work, part, slab, from, scratch, findings);
        });
  }

  bool WriteSlab(ArrayCopy& work, size_t part, const Region& slab,
                 const char* bytes, Scratch& scratch, Findings& findings) {
    const TransferTensor& tensor = transfer_.tensors[work.tensor];
    const int64_t unit = DtypeBits(tensor.to) / 8;
    if (tensor.from != tensor.to) {
      scratch.cast.resize(AsIndex(slab.Units() * unit));
      ConvertFloats(tensor.from, tensor.to, bytes, scratch.cast.data(),
                    AsIndex(slab.Units()));
      bytes = scratch.cast.data();
    }
    return ForEachRun(slab, slab, work.part_regions[part],
                      [&](int64_t from, int64_t to, int64_t units) {
                        return writer_.Write(work.parts, part, to * unit,
                                             bytes + from * unit,
                                             AsIndex(units * unit), findings);
                      });
  }

  const Transfer& transfer_;
  const stored::Tree& tree_;
  PieceWriter writer_;
  const int threads_;
  const int64_t memory_;
  Budget budget_;
};

}  // namespace

bool CheckPathsUnchanged(const Transfer& transfer, Findings& findings) {
  for (const SourceFile& source : transfer.sources) {
    struct stat status = {};
    if (::stat(source.path.c_str(), &status) == 0 &&
        status.st_size == source.size &&
        ModifiedNs(status) == source.modified_ns) {
      continue;
    }
    AddChanged(source.path, findings);
    return false;
  }
  return true;
}

int64_t ChunkMemory(const stored::Array& array) {
  // A chunk is in memory twice: in its stored form and decoded.
  return 2 * StoredBytes(array) + kScratch;
}

bool CopyTree(const Transfer& transfer, const std::vector<CopyTarget>& files,
              Checksums& checksums, const CopyOptions& options,
              Findings& findings) {
  return TreeCopier(transfer, files, checksums, options).Run(findings) &&
         CheckPathsUnchanged(transfer, findings);
}

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

// Copies boxes (rectangular parts) of an array from the chunks that overlap
// them. If the boxes and the chunks form different grids, several boxes need
// the same chunk. A chunk therefore stays in memory until all its elements have
// been copied. It is removed earlier if too much memory is in use, and decoded
// again when another box needs it.
//
//   chunks [4, 8] and [4, 8] of w [8, 8], copied as boxes [8, 4]: the first box
//   copies half of each chunk, and the second box the other half

std::shared_ptr<ChunkCache::Entry> ChunkCache::Find(const Key& key) {
  const std::lock_guard lock(mutex_);
  auto& entry = entries_[key];
  if (entry == nullptr) {
    entry = std::make_shared<Entry>();
    entry->left = tree_.arrays[key.first].BoxOf(key.second).Elements();
    entry->place = recent_.insert(recent_.begin(), key);
  } else {
    recent_.erase(entry->place);
    entry->place = recent_.insert(recent_.begin(), key);
  }
  return entry;
}

std::shared_ptr<const std::string> ChunkCache::Load(const Key& key,
                                                    Entry& entry,
                                                    Findings& findings) {
  const std::lock_guard entry_lock(entry.mutex);
  if (entry.bytes != nullptr) return entry.bytes;
  auto read = tree_.reader->Read(key.first, key.second, findings);
  if (!read) return nullptr;
  const std::lock_guard lock(mutex_);
  entry.bytes = std::make_shared<const std::string>(std::move(*read));
  bytes_ += static_cast<int64_t>(entry.bytes->size());
  Shrink(key);
  return entry.bytes;
}

void ChunkCache::Remove(const Key& key, const Entry& entry) {
  if (entry.bytes != nullptr) {
    bytes_ -= static_cast<int64_t>(entry.bytes->size());
  }
  recent_.erase(entry.place);
  entries_.erase(key);
}

void ChunkCache::Shrink(const Key& key) {
  auto at = recent_.end();
  while (bytes_ > most_bytes_ && at != recent_.begin()) {
    --at;
    const auto found = entries_.find(*at);
    // A chunk that is still being decoded has no bytes, so removing it would
    // free no memory.
    if (*at == key || found->second->bytes == nullptr) continue;
    const Key removed = *at;
    ++at;
    Remove(removed, *found->second);
  }
}

bool ChunkCache::Take(size_t array, const Box& box, char* out,
                      Findings& findings) {
  if (box.Elements() == 0) return true;
  const stored::Array& stored = tree_.arrays[array];
  const Region wanted = RegionOf(box);
  return stored::ForEachChunk(stored, box, [&](int64_t chunk) {
    const Key key(array, chunk);
    const auto entry = Find(key);
    const auto bytes = Load(key, *entry, findings);
    if (bytes == nullptr) return false;
    const int64_t taken =
        stored::CopyOfChunk(stored, chunk, bytes->data(), wanted, out);
    const std::lock_guard lock(mutex_);
    entry->left -= taken;
    const auto found = entries_.find(key);
    if (entry->left == 0 && found != entries_.end() && found->second == entry) {
      Remove(key, *entry);
    }
    return true;
  });
}

// Writes a transfer as a tree (orbax or DCP). A sharding plan divides each
// tensor into parts, and each part is written as one chunk. If the source's
// chunks are smaller than a part, the part is divided along the edges of these
// chunks. For each chunk, the writers of the directory `stored` read one box of
// elements. Boxes that need the same source chunk are read one after another.
// For example:
//
//   w [8192, 4096] from chunks [1024, 4096] to parts [8192, 1024]:
//   written in chunks [1024, 1024], of which 4 come from one source chunk
//
// After the last read the sources are checked for changes, so that a checkpoint
// with data from changed files is never published.

namespace {

constexpr OutputFormat kFormats[] = {
    {"safetensors", std::nullopt, nullptr},
    {"orbax", stored::WriteForm::kOrbax, stored::WriteOrbax},
    {"dcp", stored::WriteForm::kDcp, stored::WriteDcp}};

class TransferSource : public stored::BoxSource {
 public:
  // Returns nullopt after a finding.
  static std::optional<TransferSource> Open(const Transfer& transfer,
                                            int64_t cache_bytes,
                                            Findings& findings) {
    TransferSource out(transfer);
    if (transfer.tree != nullptr) {
      out.cache_ = std::make_unique<ChunkCache>(*transfer.tree, cache_bytes);
      return out;
    }
    for (const SourceFile& source : transfer.sources) {
      auto file = InputFile::Open(source.path, findings);
      if (!file) return std::nullopt;
      out.inputs_.push_back(std::move(*file));
    }
    return out;
  }

  bool Read(size_t array, const Box& box, char* out,
            Findings& findings) const override {
    const TransferTensor& tensor = transfer_->tensors[array];
    if (tensor.from == tensor.to) {
      return ReadStoredBytes(tensor, box, out, findings);
    }
    std::string from(AsIndex(box.Elements() * DtypeBits(tensor.from) / 8),
                     '\0');
    if (!ReadStoredBytes(tensor, box, from.data(), findings)) return false;
    ConvertFloats(tensor.from, tensor.to, from.data(), out,
                  AsIndex(box.Elements()));
    return true;
  }

  bool Finish(Findings& findings) const override {
    return CheckPathsUnchanged(*transfer_, findings);
  }

 private:
  explicit TransferSource(const Transfer& transfer) : transfer_(&transfer) {}

  bool ReadStoredBytes(const TransferTensor& tensor, const Box& box, char* out,
                       Findings& findings) const {
    if (tensor.array) {
      return cache_->Take(*tensor.array, box, out, findings);
    }
    const int64_t unit = DtypeBits(tensor.from) / 8;
    const Region wanted = RegionOf(box);
    return std::all_of(tensor.sources.begin(), tensor.sources.end(),
                       [&](const SourcePiece& piece) {
                         const Region held = RegionOf(piece.box);
                         if (!Region::Overlap(held, wanted)) return true;
                         return ForEachRun(
                             Region::Intersect(held, wanted), held, wanted,
                             [&](int64_t from, int64_t to, int64_t units) {
                               return inputs_[piece.file].ReadAt(
                                   piece.offset + from * unit, out + to * unit,
                                   AsIndex(units * unit), findings);
                             });
                       });
  }

  const Transfer* transfer_;
  std::unique_ptr<ChunkCache> cache_;  // set if the source is a tree
  std::vector<InputFile> inputs_;      // open if the sources are files
};

// Returns the size of the written chunks along a dimension of `size` elements,
// for parts of size `part` and source chunks of size `source`. It is `source`
// if source chunks are smaller than the part and none of them spans two parts.
// Otherwise it is `part`. A part of 8192 with `source` 1024 gives 1024, and a
// part of 8 with `source` 64 gives 8.
int64_t CommonSize(int64_t part, int64_t source, int64_t size) {
  const bool divides = part == size || part % source == 0;
  return source < part && divides ? source : part;
}

// The limits for joining small chunks. For chunks of less than kSmallBytes,
// listing and reading takes more time than copying. Several such chunks are
// therefore joined to chunks of at most kJoinedBytes.
constexpr int64_t kSmallBytes = int64_t{64} << 10;
constexpr int64_t kJoinedBytes = int64_t{1} << 20;

// Returns the size of joined chunks along a dimension of `size` elements. At
// most `most` chunks of size `chunk` are joined, as many as fit in the part.
// Unless the part is the full dimension, the joined size divides the part:
// chunks of 8 in a part of 48, with `most` 4, give 24.
int64_t JoinedSize(int64_t chunk, int64_t most, int64_t part, int64_t size) {
  int64_t count = std::min(most, part / chunk);
  while (count > 1 && part != size && part % (chunk * count) != 0) --count;
  return chunk * std::max<int64_t>(count, 1);
}

// Joins small chunks of the same part, beginning with the last dimension. For
// example, a source with chunks [1, 64] is written in parts [2048, 8]. Each
// part is then one chunk instead of 2048 chunks [1, 8]. A source chunk that
// several parts share stays in the cache until the last of these parts is
// written. Chunks are joined only as far as these source chunks fit in
// `cache_bytes` bytes.
void JoinChunks(const Shape& part, const Shape& source, int64_t unit,
                int64_t cache_bytes, stored::ArrayToWrite& array) {
  Shape& chunk = array.chunk;
  int64_t bytes = Box{chunk, chunk}.Elements() * unit;
  if (bytes >= kSmallBytes) return;
  for (size_t dim = chunk.size(); dim > 0 && 2 * bytes <= kJoinedBytes; --dim) {
    const size_t i = dim - 1;
    double row = static_cast<double>(unit * chunk[i]);
    for (size_t k = 0; k < chunk.size(); ++k) {
      if (k < i) row *= static_cast<double>(std::max(chunk[k], source[k]));
      if (k > i) row *= static_cast<double>(array.shape[k]);
    }
    const double rows = static_cast<double>(cache_bytes) / std::max(row, 1.0);
    const int64_t times = kJoinedBytes / bytes;
    const auto most =
        static_cast<int64_t>(std::min(rows, static_cast<double>(times)));
    const int64_t joined = JoinedSize(chunk[i], most, part[i], array.shape[i]);
    bytes = bytes / chunk[i] * joined;
    chunk[i] = joined;
    if (joined < part[i]) return;
  }
}

stored::ArrayToWrite ArrayOf(const Transfer& transfer, size_t index,
                             const TreeOutput& output) {
  const TransferTensor& tensor = transfer.tensors[index];
  stored::ArrayToWrite out;
  out.path = tensor.in_tree.keys;
  out.in_sequence = tensor.in_tree.in_sequence;
  out.random_key = tensor.in_tree.random_key;
  if (out.path.empty() && !tensor.array) {
    const auto keys = SplitName(tensor.name, '/');
    out.path.assign(keys.begin(), keys.end());
  }
  out.shape = tensor.shape;
  out.dtype = tensor.to;
  out.chunk = tensor.parts[0].shape;
  for (int64_t& size : out.chunk) size = std::max<int64_t>(size, 1);
  if (tensor.array) {
    const stored::Array& array = transfer.tree->arrays[*tensor.array];
    if (array.pieces.empty() && array.Chunks() > 1) {
      for (size_t dim = 0; dim < out.chunk.size(); ++dim) {
        out.chunk[dim] =
            CommonSize(out.chunk[dim], array.chunk[dim], out.shape[dim]);
      }
      // Without a sharding plan (`index` is null), each part is a full tensor,
      // and the chunk sizes of the source are kept.
      if (output.index != nullptr) {
        JoinChunks(tensor.parts[0].shape, array.chunk, array.element_bytes,
                   output.memory_bytes / 8, out);
      }
    }
  }
  if (output.index != nullptr) {
    // The mesh has factors in place of axes that have sub-axes in the spec,
    // because a NamedSharding shards over complete axes.
    const Mesh& mesh = output.index->mesh;
    const Spec& spec = output.index->params[index].spec;
    const Mesh refined = RefinedMesh(mesh, {&spec, 1}).value_or(mesh);
    out.sharding = {refined, RefinedSpec(refined, spec)};
  }
  return out;
}

}  // namespace

std::span<const OutputFormat> OutputFormats() { return kFormats; }

bool WriteTransfer(const Transfer& transfer,
                   const std::vector<stored::Leaf>& leaves,
                   const OutputFormat& format, const TreeOutput& output,
                   stored::WriteReport* report, Findings& findings) {
  std::vector<stored::ArrayToWrite> arrays;
  const size_t before = findings.errors();
  for (size_t i = 0; i < transfer.tensors.size(); ++i) {
    const TransferTensor& tensor = transfer.tensors[i];
    arrays.push_back(ArrayOf(transfer, i, output));
    const auto& sharding = arrays.back().sharding;
    if (format.form == stored::WriteForm::kOrbax && sharding &&
        !DividesEvenly(sharding->mesh, tensor.shape, sharding->spec)) {
      findings.Add(code::kSpec, {MakeSource(output.folder, {})},
                   "the spec " + SpecText(sharding->spec) + " of " +
                       ShortQuote(tensor.name) + " does not divide " +
                       ShapeText(tensor.shape) +
                       ", and orbax records a NamedSharding, which divides a "
                       "dimension into equal parts",
                   "write `--as dcp` or safetensors");
    }
    if (tensor.array || DtypeBits(tensor.from) % 8 == 0) continue;
    findings.Add(code::kDtype, {MakeSource(output.folder, {})},
                 ShortQuote(tensor.name) + " has the packed data type " +
                     std::string(DtypeName(tensor.from)) + ", which --as " +
                     std::string(format.name) + " does not convert",
                 "leave it out: `--params REGEX` names the arrays to copy");
  }
  if (findings.errors() > before) return false;
  const auto source =
      TransferSource::Open(transfer, output.memory_bytes / 2, findings);
  if (!source) return false;
  stored::WriteOptions options;
  options.folder = output.folder;
  options.memory_bytes = output.memory_bytes / 2;
  options.threads = output.threads;
  options.process = output.share.index;
  options.processes = output.share.count;
  options.finalize = output.finalize;
  options.verify = output.verify;
  options.sources = TransferKey(transfer);
  options.state = SourceState(transfer);
  options.report = report;
  return format.write(arrays, leaves, *source, options, findings);
}

}  // namespace shardc
