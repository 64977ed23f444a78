// Copies the arrays of a stored tree. Each worker thread copies one tile (a
// group of chunks, tiles.h) at a time. The chunks of a tile are decoded into
// one buffer. Each part of an output that overlaps the tile is then written
// from this buffer, in slabs of limited size:
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
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "checkpoint/block_queue.h"
#include "checkpoint/piece_writer.h"
#include "checkpoint/tiles.h"
#include "floats/convert.h"
#include "source/checked.h"
#include "source/file.h"
#include "source/index.h"
#include "stored/gather.h"

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

}  // namespace shardc
