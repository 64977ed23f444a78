// Copies the arrays of a stored tree. Every needed chunk is decoded once, and
// the overlapping parts of outputs are written from memory.
#ifndef SHARDC_CHECKPOINT_TREE_COPY_H_
#define SHARDC_CHECKPOINT_TREE_COPY_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/copy.h"
#include "checkpoint/shards_index.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"
#include "stored/box.h"
#include "stored/tree.h"
#include "stored/write.h"

namespace shardc {

// Returns the largest number of bytes of memory that copying one chunk of the
// array needs.
int64_t ChunkMemory(const stored::Array& array);

// Returns false after a finding if the size or the modification time of a
// source has changed since the transfer was planned.
bool CheckPathsUnchanged(const Transfer& transfer, Findings& findings);

// Writes the pieces and sets their checksums as CopyPieces does, for a transfer
// whose `tree` is set.
bool CopyTree(const Transfer& transfer, const std::vector<CopyTarget>& files,
              Checksums& checksums, const CopyOptions& options,
              Findings& findings);

// Groups the chunks of a stored array into tiles. A tile is a box of complete
// chunks. It is large enough for long runs in the outputs, and small enough for
// the memory.

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

// A cache of chunks for several threads that copy disjoint boxes of arrays.
// Each box is copied once. A chunk is decoded only once, unless the chunks in
// use need more than `most_bytes` bytes.
class ChunkCache {
 public:
  ChunkCache(const stored::Tree& tree, int64_t most_bytes)
      : tree_(tree), most_bytes_(most_bytes) {}

  // Copies the elements of the box to `out` in row-major order. Returns false
  // after a finding.
  bool Take(size_t array, const Box& box, char* out, Findings& findings);

 private:
  // The index of an array in the tree, and the index of a chunk in the array.
  using Key = std::pair<size_t, int64_t>;
  struct Entry {
    std::mutex mutex;  // held while the chunk is decoded
    std::shared_ptr<const std::string> bytes;
    // The number of elements that have not been copied since the entry was
    // made.
    int64_t left = 0;
    std::list<Key>::iterator place;
  };

  std::shared_ptr<Entry> Find(const Key& key);
  std::shared_ptr<const std::string> Load(const Key& key, Entry& entry,
                                          Findings& findings);
  // Removes the least recently used chunks until the remaining chunks have at
  // most `most_bytes_` bytes. Never removes the chunk `key`, which was decoded
  // just before, or a chunk that is still being decoded.
  void Shrink(const Key& key);
  void Remove(const Key& key, const Entry& entry);

  const stored::Tree& tree_;
  const int64_t most_bytes_;
  // Guards all members below, and `left` and `place` of entries.
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  std::list<Key> recent_;  // keys of chunks, the most recently used first
  int64_t bytes_ = 0;
};

// An output format of the commands merge and reshard.
struct OutputFormat {
  std::string_view name;  // such as "orbax"
  std::optional<stored::WriteForm> form;
  // A function that writes a tree. Null for safetensors files, which
  // RunTransfer writes.
  bool (*write)(std::span<const stored::ArrayToWrite> arrays,
                std::span<const stored::Leaf> leaves,
                const stored::BoxSource& source,
                const stored::WriteOptions& options, Findings& findings);
};
// Returns all formats, the default one first.
std::span<const OutputFormat> OutputFormats();

struct TreeOutput {
  std::string folder;
  // The specs and the mesh that are saved with the arrays. If null, the arrays
  // are saved without a sharding.
  const ShardsIndex* index = nullptr;
  int64_t memory_bytes = 0;
  int threads = 1;
  ProcessShare share;
  bool finalize = false;  // write no chunks, only complete the checkpoint
  bool verify = false;    // read everything back after writing
};

// Writes the transfer's tensors and the leaves (values that are not arrays) as
// a tree. Ignores `transfer.outputs`. The chunks of a tensor are its parts or
// smaller. The path of a tensor in the tree is TransferTensor::in_tree. If this
// is empty, because the source is safetensors files without a recorded tree,
// the tensor's name is split at `/`. Returns false after a finding of the
// writer, or after the finding dtype or unreadable (also for a source that has
// changed).
bool WriteTransfer(const Transfer& transfer,
                   const std::vector<stored::Leaf>& leaves,
                   const OutputFormat& format, const TreeOutput& output,
                   stored::WriteReport* report, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_TREE_COPY_H_
