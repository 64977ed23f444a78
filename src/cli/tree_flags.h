// The option `--to`, with which split, merge and reshard write a tree (a folder
// in the format of orbax or DCP) instead of safetensors files.
#ifndef SHARDC_CLI_TREE_FLAGS_H_
#define SHARDC_CLI_TREE_FLAGS_H_

#include "checkpoint/tree_output.h"
#include "cli/checkpoint_flags.h"
#include "cli/command.h"
#include "source/finding.h"

namespace shardc::cli {

Option ToOption(CheckpointFlags& flags);

// Returns whether `--to` gives another format than safetensors files.
bool WritesTree(const CheckpointFlags& flags);

// Returns the format that `--to` gives.
const OutputFormat& FormatOf(const CheckpointFlags& flags);

// Adds a finding (usage) and returns true if an option is given that applies
// only to safetensors files.
bool RefuseForTree(const CheckpointFlags& flags, Findings& findings);

// Writes the tensors of the transfer in the format of `--to`, or with --dry-run
// prints what would be written. `index` has the shardings to record; null if
// there are none. Returns the exit status.
int RunTreeOutput(const Stored& stored, const Transfer& transfer,
                  const ShardsIndex* index, const CheckpointFlags& flags,
                  const CheckpointSettings& settings, const Common& common,
                  Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_TREE_FLAGS_H_
