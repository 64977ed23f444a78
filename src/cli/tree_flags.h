// The option `--to` of the commands `split`, `merge` and `reshard`. With it, a
// command writes a checkpoint as a folder in the format of orbax or DCP (a
// tree), and not as safetensors files.
#ifndef SHARDC_CLI_TREE_FLAGS_H_
#define SHARDC_CLI_TREE_FLAGS_H_

#include "checkpoint/tree_output.h"
#include "cli/checkpoint_flags.h"
#include "cli/command.h"
#include "source/finding.h"

namespace shardc::cli {

Option ToOption(CheckpointFlags& flags);

// Returns whether `--to` names a format other than safetensors.
bool WritesTree(const CheckpointFlags& flags);

// Returns the format that `--to` names.
const OutputFormat& FormatOf(const CheckpointFlags& flags);

// If an option is given that applies only to safetensors files, adds a finding
// (usage) and returns true.
bool RefuseForTree(const CheckpointFlags& flags, Findings& findings);

// Writes the tensors of the transfer in the format of `--to`. With --dry-run,
// only prints what would be written. `index` has the shardings to record, and
// is null if there are none. Returns the exit status.
int RunTreeOutput(const Stored& stored, const Transfer& transfer,
                  const ShardsIndex* index, const CheckpointFlags& flags,
                  const CheckpointSettings& settings, const Common& common,
                  Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_TREE_FLAGS_H_
