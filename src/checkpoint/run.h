// A transfer from beginning to end: its share of the work, what an earlier
// run left, copying, checking, names, index.
#ifndef SHARDC_CHECKPOINT_RUN_H_
#define SHARDC_CHECKPOINT_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/ownership.h"
#include "checkpoint/transfer.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc {

struct RunOptions {
  ProcessShare share;
  bool finalize = false;  // only check the parts of all, and write the index
  bool verify = false;    // read everything written again
  bool reuse = false;     // write over an earlier set's files
  bool sync = true;       // fsync before files get their names
  int threads = 1;
  // Bytes written so far and in all; one call at a time.
  std::function<void(int64_t done, int64_t total)> progress;
};

struct RunReport {
  TransferSize size;        // of this process's share
  int64_t pieces_kept = 0;  // found complete and correct from before
  bool indexed = false;     // the set is whole and its index written
};

// Writes the index of all checksums.
using WriteIndex = std::function<void(const Checksums& checksums, Sink& out)>;

// Whether a file that would be written, under its own name or its hidden one,
// is read too: through links, and whatever the directory is called. A finding
// (usage) then says so.
bool RefuseInputs(const Transfer& transfer, Findings& findings);

// Refuses inputs first. On failure the outputs that were there before are there
// still (unless `reuse`), nothing is left behind, and one finding says why:
// write, unreadable, missing (finalize).
bool RunTransfer(const Transfer& transfer, const WriteIndex& write_index,
                 const RunOptions& options, RunReport* report,
                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_RUN_H_
