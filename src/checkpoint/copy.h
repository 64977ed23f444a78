// Copies the data of a transfer. Sources are read and output pieces are written
// in long contiguous runs. The checksums of the pieces are computed at the same
// time.
#ifndef SHARDC_CHECKPOINT_COPY_H_
#define SHARDC_CHECKPOINT_COPY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/transfer.h"
#include "source/finding.h"
#include "source/process.h"
#include "stored/box.h"

namespace shardc {

// An output file that is being written. If the file is not open, for example
// because another process writes it, `fd` is -1.
struct CopyTarget {
  int fd = -1;
  bool fresh = false;  // whether the file is new and reads as zeros
};

inline constexpr int64_t kTreeBytes = int64_t{256} << 20;

struct CopyOptions {
  int threads = 1;
  // The bytes of memory for all buffers together, if the source is safetensors
  // files. Each thread uses at least 1.5 MiB and at most 12 MiB.
  int64_t memory_bytes = int64_t{96} << 20;
  // The bytes of memory for all buffers if the source is a tree, such as orbax.
  // A single chunk that needs more memory is copied nevertheless.
  int64_t tree_bytes = kTreeBytes;
  // A function that is called, by any thread, with the number of bytes written
  // since its last call. Calls are never concurrent.
  std::function<void(int64_t bytes_written)> progress;
  // A function that is called once for each complete piece, with its checksum.
  // It returns false, with errno set, if the piece cannot be recorded. Calls
  // are never concurrent.
  std::function<bool(size_t output, size_t piece, uint32_t crc)> piece_done;
};

// Adds a finding with the code `unreadable`: the source at `path` has changed
// since the transfer was planned.
void AddChanged(const std::string& path, Findings& findings);

// Writes every piece whose checksum is not set yet and whose output has an open
// file. Sets the checksums of these pieces. Returns false after a finding with
// the code `unreadable` (also for a source that was shortened or changed during
// the copy) or `write`, or after an error in a chunk of a stored tree.
bool CopyPieces(const Transfer& transfer, const std::vector<CopyTarget>& files,
                Checksums& checksums, const CopyOptions& options,
                Findings& findings);

// The parts of a tensor that is being copied, and the outputs that need them.
class PartsInWork {
 public:
  bool Wanted(size_t part) const { return !targets_[part].empty(); }

 private:
  friend class PieceWriter;
  struct Target {
    size_t output = 0;
    size_t piece = 0;
  };
  // A run of bytes of a part that were written in one call: the run's offset in
  // the part, its length and its checksum.
  struct ChecksummedRun {
    int64_t offset = 0;
    int64_t bytes = 0;
    uint32_t crc = 0;
  };
  // The output pieces to which each part is written; indexed by part.
  std::vector<std::vector<Target>> targets_;
  std::vector<int64_t> bytes_;  // size of each part, indexed by part
  std::vector<int64_t> left_;   // bytes not yet written, indexed by part
  std::vector<std::vector<ChecksummedRun>> runs_;  // written runs of each part
  // Whether the part is read back because not all of its runs are recorded;
  // indexed by part.
  std::vector<bool> read_back_;
};

// Writes parts. Several threads may write at the same time.
class PieceWriter {
 public:
  // A piece is written if its checksum is not known yet and its output has an
  // open file. The checksums of the written pieces are set in `checksums`.
  PieceWriter(const Transfer& transfer, const std::vector<CopyTarget>& files,
              Checksums& checksums, const CopyOptions& options);

  // Returns whether any piece of the tensor must be written.
  bool Any(size_t tensor) const { return !by_tensor_[tensor].empty(); }
  // Begins the copy of a tensor. Parts without elements are completed here.
  PartsInWork Begin(size_t tensor);
  // Writes a run of a part to the outputs that need the part. The run starts
  // `at` bytes after the part's start. A run of zeros is not written to a new
  // file, which reads as zeros. Each byte of a part must be passed exactly
  // once. Returns false after adding the finding `write`.
  bool Write(PartsInWork& parts, size_t part, int64_t at, const char* bytes,
             size_t count, Findings& findings);

 private:
  using Target = PartsInWork::Target;

  bool Put(const Target& target, int64_t at, const char* bytes, size_t count,
           Findings& findings) const;
  bool Finish(PartsInWork& parts, size_t part, Findings& findings);
  bool ReadBack(const PartsInWork& parts, size_t part, uint32_t* crc,
                Findings& findings) const;

  const Transfer& transfer_;
  const std::vector<CopyTarget>& files_;
  Checksums& checksums_;
  const CopyOptions& options_;
  std::vector<std::vector<std::pair<uint32_t, Target>>> by_tensor_;
  // Guards checksums, runs, bytes left, and calls of callbacks in `options_`.
  std::mutex mutex_;
};

// A queue of the blocks of tensors, from which worker threads take blocks to
// copy. All blocks of a tensor are started before the first block of the next
// tensor.

// `Work` describes a tensor that is being copied; `blocks()` returns the number
// of its blocks. `Scratch` is memory that a worker reuses for all its blocks.
template <typename Work, typename Scratch>
class BlockQueue {
 public:
  // A function that begins the copy of a tensor. It returns null if no part of
  // the tensor has to be copied. It is called under a lock.
  using Begin = std::function<std::shared_ptr<Work>(size_t tensor)>;
  // A function that copies one block. It returns false after a finding (an
  // error). Several threads call it at the same time.
  using Copy = std::function<bool(Work& work, int64_t block, Scratch& scratch,
                                  Findings& findings)>;

  BlockQueue(size_t tensors, Begin begin, Copy copy)
      : tensors_(tensors), begin_(std::move(begin)), copy_(std::move(copy)) {}

  // Copies all blocks. After a block fails, no further block is started, and
  // Run returns false with the findings of the first block that failed.
  bool Run(int threads, Findings& findings) {
    ParallelFor(threads, threads, [this](int64_t) { Worker(); });
    if (!stop_) return true;
    findings.Append(std::move(first_error_));
    return false;
  }

 private:
  void Worker() {
    Scratch scratch;
    for (;;) {
      const auto [work, block] = Next();
      if (work == nullptr) return;
      Findings findings;
      if (copy_(*work, block, scratch, findings)) continue;
      const std::lock_guard lock(mutex_);
      if (!stop_.exchange(true)) first_error_ = std::move(findings);
      return;
    }
  }

  // Returns the next block and its tensor. Returns null if no block is left or
  // if a block has failed.
  std::pair<std::shared_ptr<Work>, int64_t> Next() {
    const std::lock_guard lock(mutex_);
    while (!stop_) {
      if (next_block_ < blocks_) return {work_, next_block_++};
      if (next_tensor_ == tensors_) break;
      work_ = begin_(next_tensor_++);
      next_block_ = 0;
      blocks_ = work_ == nullptr ? 0 : work_->blocks();
    }
    return {nullptr, 0};
  }

  const size_t tensors_;
  const Begin begin_;
  const Copy copy_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;  // guards all members below
  Findings first_error_;
  std::shared_ptr<Work> work_;
  int64_t blocks_ = 0;
  int64_t next_block_ = 0;
  size_t next_tensor_ = 0;
};

// Describes a tensor of a transfer as a grid of units with as few dimensions as
// possible. A unit is a byte, or an element if the tensor is cast. The tensor
// is copied in blocks of limited size.
//
// A dimension that no piece splits is merged into the dimension before it, so
// most tensors have a grid of one or two dimensions. A block has one index
// along each leading dimension, a range of indices along the next dimension,
// and all indices along the remaining dimensions.

// A range of a grid that a piece has, and the place of it among the bytes of
// the piece: frame.OffsetOf() of a region in it. The frame has the shape of the
// piece. It is the region itself, unless the piece has several ranges: the
// frame then begins as far before the region as the ranges before it are long.
struct HeldRange {
  Region region;
  Region frame;
};

class Grid {
 public:
  // Returns nullopt if a piece starts or ends inside a byte, which is possible
  // with packed dtypes. Then `*why` is an error message that names the tensor.
  static std::optional<Grid> Make(const TransferTensor& tensor,
                                  std::string* why);

  // The bytes of a unit in the source and in the output. A unit is a byte, or
  // an element if the tensor is cast to another dtype.
  int64_t unit_from() const { return unit_from_; }
  int64_t unit_to() const { return unit_to_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  // The ranges of each source piece and each part: one, or with parts of stated
  // sizes (TransferTensor::sized_parts) one for each of them.
  const std::vector<std::vector<HeldRange>>& sources() const {
    return sources_;
  }
  const std::vector<std::vector<HeldRange>>& parts() const { return parts_; }

  // Returns the number of blocks of at most `max_bytes` bytes each, measured in
  // the wider of the source's and the output's dtype. A block has at least one
  // unit.
  int64_t Blocks(int64_t max_bytes) const;
  Region Block(int64_t index, int64_t max_bytes) const;

 private:
  struct Steps {
    size_t dim = 0;    // the dimension that is split into ranges of indices
    int64_t step = 1;  // number of indices of `dim` in a range
    int64_t ranges = 1;
    int64_t prefixes = 1;
  };
  Steps Walk(int64_t max_bytes) const;

  std::vector<int64_t> sizes_;  // at least one dimension
  std::vector<std::vector<HeldRange>> sources_;
  std::vector<std::vector<HeldRange>> parts_;
  int64_t unit_from_ = 1;
  int64_t unit_to_ = 1;
};

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_COPY_H_
