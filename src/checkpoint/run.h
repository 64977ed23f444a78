// Runs a transfer: opens or continues the journal, copies the outputs of this
// process, checks and renames them, and writes the index.
#ifndef SHARDC_CHECKPOINT_RUN_H_
#define SHARDC_CHECKPOINT_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/transfer.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc {

struct RunOptions {
  ProcessShare share;
  // If true, the run copies nothing. It checks the files of all processes and
  // writes the index.
  bool finalize = false;
  bool verify = false;  // read everything back after writing
  bool reuse = false;   // overwrite the files of an earlier set
  bool sync = true;     // call fsync before renaming
  int threads = 1;
  // The bytes of memory for buffers; nullopt selects the defaults of
  // CopyOptions.
  std::optional<int64_t> memory_bytes;
  // A function that is called with the bytes written so far and the bytes to
  // write in total. Calls are never concurrent.
  std::function<void(int64_t done, int64_t total)> progress;
};

struct RunReport {
  TransferSize size;        // size of the outputs of this process
  int64_t pieces_kept = 0;  // pieces of an earlier run that were correct
  bool indexed = false;     // whether all outputs and their index are complete
};

// A function that writes the index, with all checksums.
using WriteIndex = std::function<void(const Checksums& checksums, Sink& out)>;

// Adds a finding (usage) and returns true if a file that will be written is
// also an input. Both the final and the hidden names of outputs are checked.
// Files are compared by device and inode, so an input is recognised even if its
// path is written in another way or leads through a link.
bool RefuseInputs(const Transfer& transfer, Findings& findings);

// Calls RefuseInputs and runs the transfer. After a failure, earlier outputs
// are unchanged, unless `reuse` is set or some outputs have already been
// replaced. In these two cases, their index marks them as unfinished. If there
// were no earlier outputs, the new files are removed. If only the index could
// not be written, the new files and the journal are kept. The journal then
// marks the set as unfinished. Returns false after one finding with the reason:
// usage, write, unreadable, missing (with `finalize`), or an error in a chunk
// of a stored tree.
bool RunTransfer(const Transfer& transfer, const WriteIndex& write_index,
                 const RunOptions& options, RunReport* report,
                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_RUN_H_
