// Writes trees of arrays as checkpoints that orbax and
// torch.distributed.checkpoint (DCP) restore, on any number of devices.
//
// The writers take their bytes from a BoxSource, a few chunks at a time. A
// checkpoint appears under its name only when it is complete: it is written to
// a folder next to it, which the readers of this room, orbax and PyTorch take
// for an unfinished one, and renamed last. A run that was killed is continued,
// and several processes may each write a share of the chunks.
#ifndef SHARDC_STORED_WRITE_H_
#define SHARDC_STORED_WRITE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "source/finding.h"
#include "stored/box.h"
#include "stored/tree.h"

namespace shardc::stored {

struct ArrayToWrite {
  std::vector<std::string> path;  // keys from the root of the tree
  Shape shape;
  Dtype dtype = Dtype::kF32;
  // The largest box that is stored at once, of the array's rank; sizes are at
  // least 1 and may exceed the array's. Empty: the array. A chunk for which
  // WriteOptions::memory_bytes is too small is divided.
  Shape chunk;
  // How the array was sharded; orbax records it.
  std::optional<Sharding> sharding;
  // Which keys of the path are of lists or tuples, as in Array. orbax compares
  // them with those of the tree into which it restores. Empty: all keys are of
  // dictionaries.
  std::vector<bool> in_sequence = {};
  std::string random_key = {};  // as in Array; orbax records it
};

// Where the elements of the arrays come from. Read is called by several threads
// at once, and for disjoint boxes: those of this process that no earlier run
// has written.
class BoxSource {
 public:
  virtual ~BoxSource() = default;
  // Writes the elements of `box` of array number `array` to `out` in row-major
  // order: box.Elements() * StoredBytes(dtype) bytes. Returns false after a
  // finding.
  virtual bool Read(size_t array, const Box& box, char* out,
                    Findings& findings) const = 0;
  // Called after the last Read. Returns false, after a finding, if what was
  // read must not be used, as when a file has changed meanwhile.
  virtual bool Finish(Findings&) const { return true; }
};

struct WriteReport {
  int64_t chunks = 0;       // of this process
  int64_t chunks_kept = 0;  // which an earlier run has written
  bool complete = false;    // the checkpoint has its name
};

struct WriteOptions {
  std::string folder;  // the checkpoint: absent, or an empty folder
  // Bound on what the writer's own buffers hold; those of the BoxSource and the
  // list of chunks come in addition.
  int64_t memory_bytes = int64_t{256} << 20;
  int threads = 1;
  bool compress = true;  // chunks of orbax, by zstd
  // The number of this process, and how many processes there are. Each of
  // several processes writes a share of the chunks. When all have ended, one
  // call with `finalize` completes the checkpoint; that call may leave
  // `processes` at 1, and then finds the number itself.
  int64_t process = 0;
  int64_t processes = 1;
  bool finalize = false;
  bool verify = false;  // read all chunks back and compare their checksums
  // What the chunks depend on besides the arrays: the sources (the same in all
  // processes), and their state as this process sees it. A run that was killed
  // is continued if both are the same; it starts over if `sources` is empty.
  std::string sources;
  std::string state;
  WriteReport* report = nullptr;  // null: not wanted
};

// The bytes of one element in checkpoints: a byte for each element of a packed
// type.
int64_t StoredBytes(Dtype dtype);

enum class WriteForm : uint8_t { kOrbax, kDcp };
// Whether a checkpoint of this form will hold the leaf.
bool IsWritten(const Leaf& leaf, WriteForm form);
// What the folder's name ends with until the checkpoint is complete.
std::string_view UnfinishedEnding(WriteForm form);

// Both write the arrays and the leaves that are strings or empty nodes.
// WriteOrbax writes numbers as well, and WriteDcp copies opaque leaves that
// have a place; all others are left out, and the caller reports them
// (IsWritten). Both return false after a
// finding, and then nothing has the checkpoint's name. Findings: duplicate-key
// (two paths have one name in the format, or a path leads through an array),
// name (a key that the format cannot store), dtype (the format has no such
// type), write, missing (finalize: a process has not ended), and those of the
// source.
//
// WriteOrbax writes zarr arrays in an OCDBT database, as orbax does by default.
bool WriteOrbax(std::span<const ArrayToWrite> arrays,
                std::span<const Leaf> leaves, const BoxSource& source,
                const WriteOptions& options, Findings& findings);
// WriteDcp writes a data file per process, as torch does. The name of an array
// is its path joined by dots.
bool WriteDcp(std::span<const ArrayToWrite> arrays,
              std::span<const Leaf> leaves, const BoxSource& source,
              const WriteOptions& options, Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_WRITE_H_
