// Runs a transfer: opens or continues the journal, copies this process's
// outputs, checks and renames them, and writes the index.
#ifndef SHARDC_CHECKPOINT_RUN_H_
#define SHARDC_CHECKPOINT_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/ownership.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc {

struct RunOptions {
  ProcessShare share;
  bool finalize = false;  // only check all processes' parts and write the index
  bool verify = false;    // read everything back after writing
  bool reuse = false;     // overwrite the files of an earlier set
  bool sync = true;       // fsync before renaming
  int threads = 1;
  std::optional<int64_t> memory_bytes;  // for buffers; nullopt: by default
  // Called with the bytes written so far and in total; one call at a time.
  std::function<void(int64_t done, int64_t total)> progress;
};

struct RunReport {
  TransferSize size;        // of this process's share
  int64_t pieces_kept = 0;  // already complete and correct
  bool indexed = false;     // the set is complete and its index written
};

// Writes the index with all checksums.
using WriteIndex = std::function<void(const Checksums& checksums, Sink& out)>;

// Adds a finding (usage) and returns true if a file to be written, under its
// final or its hidden name, is also an input. Files are compared by device and
// inode, so links and other names of the directory are found as well.
bool RefuseInputs(const Transfer& transfer, Findings& findings);

// Calls RefuseInputs first. On failure the earlier outputs are unchanged, or
// their index marks them as unfinished (if `reuse`, or if some were replaced
// already); a run without earlier outputs leaves nothing behind. One finding
// has the reason: write, unreadable, missing (finalize).
bool RunTransfer(const Transfer& transfer, const WriteIndex& write_index,
                 const RunOptions& options, RunReport* report,
                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_RUN_H_
