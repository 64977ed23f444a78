// Functions that all checkpoint writers share: the check of paths, the division
// into chunks, and the loop that reads, encodes and stores the chunks.
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

// Returns the keys of a leaf's path. If the leaf has no path, returns the parts
// of its name between `/`.
std::vector<std::string> PathOf(const Leaf& leaf);

// Finds the complete lists of a tree. A list is complete if all its elements
// are written. Libraries fill a list in the order of its elements. A missing
// element would shift the elements after it or make the list unreadable. An
// incomplete list is therefore written as a dictionary.
class CompleteLists {
 public:
  // Adds the path of an array or a leaf. `in_sequence` states for each key
  // whether it is an index in a list. Missing entries are false.
  void Add(const std::vector<std::string>& path,
           const std::vector<bool>& in_sequence);
  // Returns whether `path[key]` is an index in a complete list. The path must
  // have been passed to Add.
  bool IsIndex(const std::vector<std::string>& path,
               const std::vector<bool>& in_sequence, size_t key) const;

 private:
  // The indices of the elements of each list, keyed by the path of the list.
  std::map<std::vector<std::string>, std::set<int64_t>> numbers_;
};

// Returns the number that the key represents, or nullopt if the key is not a
// number.
std::optional<int64_t> NumberOf(const std::string& key);

// Divides the arrays into the grids of chunks in which they are stored. The
// chunks are small enough that a few of them fit in options.memory_bytes. On
// failure, returns nullopt and adds a finding with the code duplicate-key, name
// or overflow.
std::optional<std::vector<Array>> DivideArrays(
    std::span<const ArrayToWrite> arrays, std::span<const Leaf> leaves,
    WriteForm form, const WriteOptions& options, Findings& findings);

// A function that returns the bytes that are stored for a chunk. Several
// threads call it at once.
using EncodeChunk = std::function<std::string(
    const Array& array, const Box& box, std::string elements)>;
// A function that stores a chunk. It is called in the order of arrays and
// chunks. It returns false after a finding.
using StoreChunk =
    std::function<bool(size_t array, int64_t chunk, std::string_view encoded)>;
// A half-open range of chunks. The chunks of all arrays are numbered
// consecutively, beginning with those of the first array.
struct ChunkRange {
  int64_t begin = 0;
  int64_t end = 0;
};
// Returns the range of chunks that a process writes. The ranges of all
// processes have about equal bytes.
ChunkRange ShareOf(std::span<const Array> arrays, int64_t process,
                   int64_t processes);
// Reads every chunk of the range once, encodes it by `encode` and stores it by
// `store`. Returns false after a finding of the source or of `store`. It then
// reads no further batch of chunks.
bool WriteChunks(std::span<const Array> arrays, ChunkRange range,
                 const BoxSource& source, const WriteOptions& options,
                 const EncodeChunk& encode, const StoreChunk& store,
                 Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_CHUNKS_H_
