// What split, merge and reshard have in common: flags, the share of one
// process among several, progress on a terminal, the report.
#ifndef SHARDC_CLI_CHECKPOINT_FLAGS_H_
#define SHARDC_CLI_CHECKPOINT_FLAGS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/run.h"
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
  bool dry_run = false;
  bool verify = false;
  bool no_verify = false;
  bool finalize = false;
  bool reuse = false;
  bool no_sync = false;
};

Options OptionsOf(CheckpointFlags& flags);

// The flags read: nothing where one makes no sense.
struct CheckpointSettings {
  RunOptions run;
  DtypeOf dtype;                                   // null: none is cast
  std::function<bool(const std::string&)> select;  // null: all
};
std::optional<CheckpointSettings> ReadCheckpointFlags(
    const CheckpointFlags& flags, const Common& common, Findings& findings);

// Whether `out` is the directory that is read: two sets in one folder are none.
// A finding (usage) then says so.
bool RefuseItsOwn(const std::string& source, const CheckpointFlags& flags,
                  Findings& findings);

// Moves it, or with --dry-run says what would be moved. Pieces that are read
// are compared with their checksums first, but under --no-verify. Interrupted,
// it says what lies there and ends as the signal asks.
int RunCheckpoint(const Stored& stored, const Transfer& transfer,
                  const WriteIndex& index, const CheckpointFlags& flags,
                  CheckpointSettings settings, const Common& common,
                  Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_CHECKPOINT_FLAGS_H_
