// The options that split, merge and reshard have in common, and how they run a
// transfer: this process's share, progress on a terminal, the report.
#ifndef SHARDC_CLI_CHECKPOINT_FLAGS_H_
#define SHARDC_CLI_CHECKPOINT_FLAGS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/input.h"
#include "checkpoint/run.h"
#include "checkpoint/shards_index.h"
#include "checkpoint/stored.h"
#include "cli/command.h"
#include "model/dtype.h"
#include "source/finding.h"

namespace shardc::cli {

struct CheckpointFlags {
  std::string out;
  Strings dtype;
  std::string select;
  std::string process_index, process_count;
  std::string memory;
  bool arrays_only = false;
  bool dry_run = false;
  bool verify = false;
  bool no_verify = false;
  bool finalize = false;
  bool reuse = false;
  bool no_sync = false;
  std::string to = "safetensors";  // the format of the output
};

Options OptionsOf(CheckpointFlags& flags);

struct CheckpointSettings {
  RunOptions run;
  DtypeOf dtype;       // null: no tensor is cast
  InputOptions input;  // has the filter of tensor names
};
std::optional<CheckpointSettings> ReadCheckpointFlags(
    const CheckpointFlags& flags, const Common& common, Findings& findings);

// If the output directory is `source` itself or is inside the stored tree
// `source`, adds a finding (usage) and returns true. Two checkpoints cannot
// share a directory.
bool RefuseItsOwn(const std::string& source, const CheckpointFlags& flags,
                  Findings& findings);

// Runs the transfer and returns the exit status. With --dry-run, only prints
// the bytes that the transfer would read and write. Unless --no-verify or
// --finalize is given, the source pieces are first compared with their
// checksums. If the transfer is interrupted, prints where the complete pieces
// are, and the process ends by the signal.
int RunCheckpoint(const Stored& stored, const Transfer& transfer,
                  const WriteIndex& index, const CheckpointFlags& flags,
                  CheckpointSettings settings, const Common& common,
                  Findings& findings);

// Returns the message that one of several processes prints at its end: the
// process's number, `text`, and the command that completes the output after all
// processes have ended.
std::string OfProcess(const ProcessShare& share, const std::string& text);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_CHECKPOINT_FLAGS_H_
