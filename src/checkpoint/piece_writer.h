// Writes parts of tensors to the outputs that contain them, and computes the
// checksum of each part from the checksums of its runs.
#ifndef SHARDC_CHECKPOINT_PIECE_WRITER_H_
#define SHARDC_CHECKPOINT_PIECE_WRITER_H_

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "checkpoint/copy.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"

namespace shardc {

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
  // once. Returns false after a finding (write).
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

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_PIECE_WRITER_H_
