// Copies the data of a transfer: every needed source byte is read once, every
// piece is written in long runs, and checksums are computed on the way.
#ifndef SHARDC_CHECKPOINT_COPY_H_
#define SHARDC_CHECKPOINT_COPY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/transfer.h"
#include "source/finding.h"

namespace shardc {

// An output's file while it is written. An output that this run does not write
// has fd -1.
struct CopyTarget {
  int fd = -1;
  bool fresh = false;  // new and of full size, so it reads as zeros
};

inline constexpr int64_t kTreeBytes = int64_t{256} << 20;

struct CopyOptions {
  int threads = 1;
  // Bytes of memory for all buffers together.
  int64_t memory_bytes = int64_t{96} << 20;
  // Bytes of memory for the buffers when a stored tree is copied. A single
  // chunk that needs more exceeds the limit.
  int64_t tree_bytes = kTreeBytes;
  // Called from any thread, one call at a time, with the bytes written so far.
  std::function<void(int64_t bytes_written)> progress;
  // Called once per complete piece with its checksum, one call at a time.
  std::function<bool(size_t output, size_t piece, uint32_t crc)> piece_done;
};

// Adds the finding (unreadable) that a source has changed since the transfer
// was planned.
void AddChanged(const std::string& path, Findings& findings);

// Writes the pieces whose checksum is unknown, in all targets that have a file,
// and sets their checksums. Findings: unreadable (also for a source that became
// shorter or changed meanwhile), write.
bool CopyPieces(const Transfer& transfer, const std::vector<CopyTarget>& files,
                Checksums& checksums, const CopyOptions& options,
                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_COPY_H_
