// Copies the data of a transfer. Sources are read and output pieces are written
// in long contiguous runs. The checksums of the pieces are computed at the same
// time.
#ifndef SHARDC_CHECKPOINT_COPY_H_
#define SHARDC_CHECKPOINT_COPY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/transfer.h"
#include "source/finding.h"

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

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_COPY_H_
