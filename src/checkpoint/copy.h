// The copying of a transfer: every needed source byte is read once, every
// piece written in long runs, checksums taken on the way.
#ifndef SHARDC_CHECKPOINT_COPY_H_
#define SHARDC_CHECKPOINT_COPY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "checkpoint/transfer.h"
#include "source/finding.h"

namespace shardc {

// An output's file while it is written; fd -1: not part of this run.
struct CopyTarget {
  int fd = -1;
  bool fresh = false;  // new and of full size: zeros are there already
};

struct CopyOptions {
  int threads = 1;
  // Memory for all buffers together.
  int64_t memory_bytes = int64_t{96} << 20;
  // Called from any thread, one at a time.
  std::function<void(int64_t bytes_written)> progress;
  // A piece is complete in its file, with its checksum; one at a time.
  std::function<bool(size_t output, size_t piece, uint32_t crc)> piece_done;
};

// Writes the pieces of all targets with a file whose checksum is not known
// yet, and fills those in. Findings: unreadable (also for a source that was
// cut or changed meanwhile), write.
bool CopyPieces(const Transfer& transfer, const std::vector<CopyTarget>& files,
                Checksums& checksums, const CopyOptions& options,
                Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_COPY_H_
