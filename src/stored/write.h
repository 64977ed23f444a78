// Writes trees of arrays as checkpoints that orbax and
// torch.distributed.checkpoint (DCP) restore, on any number of devices.
//
// The writers read elements from a BoxSource, in batches of chunks that fit in
// memory. A checkpoint gets its final name only when it is complete. Until then
// its files are in a folder next to that name, and the last step renames this
// folder. OpenTree and orbax recognise an unfinished folder by its name.
// PyTorch refuses an unfinished folder because `.metadata` is written last. A
// run that was killed can be continued, and several processes may each write a
// share of the chunks.
#ifndef SHARDC_STORED_WRITE_H_
#define SHARDC_STORED_WRITE_H_

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

#include "model/dtype.h"
#include "model/manifest.h"
#include "source/finding.h"
#include "stored/box.h"
#include "stored/chunk_journal.h"
#include "stored/new_folder.h"
#include "stored/tree.h"

namespace shardc::stored {

struct ArrayToWrite {
  std::vector<std::string> path;  // keys from the root of the tree
  Shape shape;
  Dtype dtype = Dtype::kF32;
  // The shape of the largest box that is stored as one chunk. It has the
  // array's rank and sizes of at least 1, and may be larger than the array. If
  // `chunk` is empty, the full array is one chunk. A chunk is divided if it has
  // more than 1 GiB or if WriteOptions::memory_bytes is too small for it.
  Shape chunk;
  // The sharding of the array, which orbax records; nullopt if there is none.
  std::optional<Sharding> sharding;
  // Whether each key of the path is the index of an element of a list or a
  // tuple. If empty, all keys are keys of dictionaries. orbax compares the
  // kinds of keys with the tree into which it restores.
  std::vector<bool> in_sequence = {};
  // The implementation of JAX's random keys, such as `threefry2x32`, which
  // orbax records. Empty if the array holds no random keys.
  std::string random_key = {};
};

// Provides the elements of the arrays that are written. Several threads call
// Read at once, for disjoint boxes. Boxes that another process writes, or that
// an earlier run has written, are not read.
class BoxSource {
 public:
  virtual ~BoxSource() = default;
  // Writes the elements of `box` of the array with index `array` to `out` in
  // row-major order: box.Elements() * StoredBytes(dtype) bytes. Returns false
  // after a finding.
  virtual bool Read(size_t array, const Box& box, char* out,
                    Findings& findings) const = 0;
  // WriteOrbax and WriteDcp call Finish after the last Read. Returns false
  // after a finding if the elements must not be used, for example because a
  // file was changed between the calls of Read.
  virtual bool Finish(Findings&) const { return true; }
};

// The progress of one run of a writer.
struct WriteReport {
  int64_t chunks = 0;       // the number of chunks of this process
  int64_t chunks_kept = 0;  // the number of chunks kept from an earlier run
  bool complete = false;    // whether the checkpoint has its final name
};

struct WriteOptions {
  // The path of the checkpoint, which must be absent or an empty folder.
  std::string folder;
  // The limit in bytes on the writer's own buffers. It does not include the
  // memory of the BoxSource and of the list of chunks.
  int64_t memory_bytes = int64_t{256} << 20;
  int threads = 1;
  bool compress = true;  // whether WriteOrbax compresses chunks with zstd
  // The index of this process, and the number of processes. Each process writes
  // a part of the chunks. If there are several processes, one call with
  // `finalize` completes the checkpoint after all of them have ended. If
  // `processes` is 1 in this call, the number of processes is read from the
  // names of the journals.
  int64_t process = 0;
  int64_t processes = 1;
  bool finalize = false;
  // Whether the writer reads all chunks back and compares their checksums.
  bool verify = false;
  // Two texts that identify the files from which the elements are read.
  // `sources` is the same in all processes. `state` may differ between
  // processes; it is for example a digest of the times at which the files were
  // changed. A run that was killed is continued only if both texts are
  // unchanged and `sources` is not empty.
  std::string sources;
  std::string state;
  WriteReport* report = nullptr;  // null: no report
};

// Returns the number of bytes of one element in checkpoints. An element of a
// packed type takes one byte.
int64_t StoredBytes(Dtype dtype);

enum class WriteForm : uint8_t { kOrbax, kDcp };
// Returns whether this format stores the leaf, a value that is not an array.
bool IsWritten(const Leaf& leaf, WriteForm form);
// Returns the ending of the folder's name while the checkpoint is incomplete.
std::string_view UnfinishedEnding(WriteForm form);

// WriteOrbax and WriteDcp write the arrays and some of the leaves, which are
// values that are not arrays. Both write strings and empty nodes. WriteOrbax
// also writes numbers. WriteDcp also copies pickled values (kOpaque) that have
// a place. All other leaves are omitted, and the caller has to report them
// (IsWritten). Both functions return false after a finding, and then do not
// create the checkpoint under its name. Findings: duplicate-key (two paths have
// one name in the format, or an array's or a leaf's path is the start of
// another), name (a key that the format cannot store), overflow, dtype (the
// format has no such type), write, missing (with `finalize`: a process has not
// ended), and the findings of the source.
//
// WriteOrbax writes zarr arrays in an OCDBT database, as orbax does by default.
bool WriteOrbax(std::span<const ArrayToWrite> arrays,
                std::span<const Leaf> leaves, const BoxSource& source,
                const WriteOptions& options, Findings& findings);
// WriteDcp writes one data file for each process, as torch does. The name of an
// array is its path joined by dots.
bool WriteDcp(std::span<const ArrayToWrite> arrays,
              std::span<const Leaf> leaves, const BoxSource& source,
              const WriteOptions& options, Findings& findings);

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

// The part of writing a checkpoint that all formats share. One process keeps
// the chunks of a killed run, writes the other chunks of its share, and
// completes the checkpoint if it is the only process.

// All chunks that the processes have written for a checkpoint, in the order of
// arrays and chunks.
struct WrittenParts {
  std::vector<std::string> files;  // names of data files, indexed by process
  std::vector<WrittenChunk> chunks;
  NewFile first;  // the open file files[0], to which a format may append
};

// The steps of writing that differ between formats.
class PartsFormat {
 public:
  virtual ~PartsFormat() = default;
  virtual WriteForm form() const = 0;
  // Returns the name of a process's data file in the folder, such as
  // "d/values".
  virtual std::string DataFile(int64_t process, int64_t processes) const = 0;
  // Returns the size in bytes up to which encoded chunks are stored in the
  // journal instead of the data file. Returns -1 if all chunks are stored in
  // the data file.
  virtual int64_t held_bytes() const = 0;
  // Returns the encoded form of a chunk, which is stored. Several threads call
  // it at once.
  virtual std::string Encode(const Array& array, const Box& box,
                             std::string elements) const = 0;
  // Writes the metadata that completes a checkpoint after all chunks have been
  // written. Returns false after a finding.
  virtual bool Complete(WrittenParts parts, const NewFolder& folder,
                        Findings& findings) = 0;
};

// Runs one of the processes that write a checkpoint. If WriteOptions::finalize
// is set, completes the checkpoint instead. Returns false after a finding.
bool WriteParts(std::span<const Array> arrays, const BoxSource& source,
                const WriteOptions& options, PartsFormat& format,
                Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_H_
