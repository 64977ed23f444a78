// Common parts of the checkpoint writers: the check of paths, the division into
// chunks, and the loop that reads, encodes and stores the chunks.
#ifndef SHARDC_STORED_WRITE_CHUNKS_H_
#define SHARDC_STORED_WRITE_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "stored/tree.h"
#include "stored/write.h"

namespace shardc::stored {

// Returns the keys of a leaf's path or, if it has none, the parts of its name.
std::vector<std::string> PathOf(const Leaf& leaf);

// Finds the lists of a tree of which all elements are written. Libraries fill a
// list in the order of its elements. A missing element would shift the elements
// after it or make the list unreadable, so an incomplete list is written as a
// dictionary.
class CompleteLists {
 public:
  // Adds the path of an array or a leaf. The flag of each key is whether it is
  // an index in a list; missing flags are false.
  void Add(const std::vector<std::string>& path,
           const std::vector<bool>& in_sequence);
  // Returns whether a key of a path that was added is an index in a list with
  // all its elements.
  bool IsIndex(const std::vector<std::string>& path,
               const std::vector<bool>& in_sequence, size_t key) const;

 private:
  // Keyed by the path of a list: the indices of its elements.
  std::map<std::vector<std::string>, std::set<int64_t>> numbers_;
};

// Returns the number that a key is; nullopt if it is none.
std::optional<int64_t> NumberOf(const std::string& key);

// Returns the arrays with the grids of chunks in which they are stored. The
// chunks are small enough that a few of them fit in options.memory_bytes.
// Returns nullopt after a finding: duplicate-key, name, overflow.
std::optional<std::vector<Array>> DivideArrays(
    std::span<const ArrayToWrite> arrays, std::span<const Leaf> leaves,
    WriteForm form, const WriteOptions& options, Findings& findings);

// Returns the stored form of a chunk. Several threads call it at once.
using EncodeChunk = std::function<std::string(
    const Array& array, const Box& box, std::string elements)>;
// Stores a chunk. It is called in the order of arrays and chunks. Returns false
// after a finding.
using StoreChunk =
    std::function<bool(size_t array, int64_t chunk, std::string_view encoded)>;
// A range of chunks, which are numbered consecutively through all arrays.
struct ChunkRange {
  int64_t begin = 0;
  int64_t end = 0;
};
// Returns the range of chunks that a process writes. The ranges of all
// processes have about equal bytes.
ChunkRange ShareOf(std::span<const Array> arrays, int64_t process,
                   int64_t processes);
// Reads every chunk of the range once, and stores it. Returns false after a
// finding of the source or of `store`, and then reads no further batch of
// chunks.
bool WriteChunks(std::span<const Array> arrays, ChunkRange range,
                 const BoxSource& source, const WriteOptions& options,
                 const EncodeChunk& encode, const StoreChunk& store,
                 Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_CHUNKS_H_
