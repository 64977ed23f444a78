// The common options of split, merge and reshard, and the function that runs a
// transfer. A transfer copies parts of tensors from the files of one checkpoint
// to the files of another. The function does this process's share of the work,
// and prints its progress.
#ifndef SHARDC_CLI_CHECKPOINT_FLAGS_H_
#define SHARDC_CLI_CHECKPOINT_FLAGS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/shards_index.h"
#include "checkpoint/stored.h"
#include "checkpoint/transfer.h"
#include "checkpoint/tree_copy.h"
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
  std::string to = "safetensors";  // format of the output
};

Options OptionsOf(CheckpointFlags& flags);

struct CheckpointSettings {
  RunOptions run;
  DtypeOf dtype;       // null if no tensor is cast
  InputOptions input;  // includes the filter of tensor names
};
std::optional<CheckpointSettings> ReadCheckpointFlags(
    const CheckpointFlags& flags, const Common& common, Findings& findings);

// Returns true, and adds a finding (usage), if the output directory is
// `source`. If `source` is a stored tree (such as an orbax checkpoint), the
// output directory must not be inside it either. Two checkpoints cannot share a
// directory.
bool RefuseItsOwn(const std::string& source, const CheckpointFlags& flags,
                  Findings& findings);

// Runs the transfer and returns the exit status. With --dry-run, only prints
// the bytes that the transfer would read and write. The data of the source is
// first compared with its checksums, unless --no-verify or --finalize is given.
// If a signal interrupts the transfer, prints where the finished parts are, and
// the signal then ends the process.
int RunCheckpoint(const Stored& stored, const Transfer& transfer,
                  const WriteIndex& index, const CheckpointFlags& flags,
                  CheckpointSettings settings, const Common& common,
                  Findings& findings);

// Returns the message that one of several processes prints at its end. It has
// the process's number, `text`, and the command that completes the output after
// all processes have ended.
std::string OfProcess(const ProcessShare& share, const std::string& text);

// The option `--as` of the commands `split`, `merge` and `reshard`. With it, a
// command writes a checkpoint as a folder in the format of orbax or DCP (a
// tree), and not as safetensors files.

Option ToOption(CheckpointFlags& flags);

// Returns whether `--as` names a format other than safetensors.
bool WritesTree(const CheckpointFlags& flags);

// Returns the format that `--as` names.
const OutputFormat& FormatOf(const CheckpointFlags& flags);

// If an option is given that applies only to safetensors files, adds a finding
// (usage) and returns true.
bool RefuseForTree(const CheckpointFlags& flags, Findings& findings);

// Writes the tensors of the transfer in the format of `--as`. With --dry-run,
// only prints what would be written. `index` has the shardings to record, and
// is null if there are none. Returns the exit status.
int RunTreeOutput(const Stored& stored, const Transfer& transfer,
                  const ShardsIndex* index, const CheckpointFlags& flags,
                  const CheckpointSettings& settings, const Common& common,
                  Findings& findings);

struct ShardFlags {
  CheckpointFlags checkpoint;
  std::string plan;
  std::string per;  // "device" if empty
  std::string mode;
  std::string processes;
  bool allow_edited = false;
};

Options OptionsOf(ShardFlags& flags);

using ReadCheckpoint = std::optional<Stored> (*)(const std::string& path,
                                                 const InputOptions& options,
                                                 Findings& findings);
// Opens the checkpoint at `path` with `read`, splits its tensors as the plan
// shards them, and writes the parts. The parts are written as safetensors files
// or, with `--as`, as another system's checkpoint. Returns the exit status.
int RunShards(const std::string& path, ReadCheckpoint read,
              const ShardFlags& flags, const Common& common,
              Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_CHECKPOINT_FLAGS_H_
