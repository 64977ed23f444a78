// `--to`: what merge and reshard write in place of safetensors files.
#ifndef SHARDC_CLI_TREE_FLAGS_H_
#define SHARDC_CLI_TREE_FLAGS_H_

#include "checkpoint/tree_output.h"
#include "cli/checkpoint_flags.h"
#include "cli/command.h"
#include "source/finding.h"

namespace shardc::cli {

Option ToOption(CheckpointFlags& flags);

// Whether `--to` gives another format than safetensors files.
bool WritesTree(const CheckpointFlags& flags);

// The format that `--to` gives.
const OutputFormat& FormatOf(const CheckpointFlags& flags);

// Reports (usage) an option that only sets of safetensors files have. Returns
// false if there is none.
bool RefuseForTree(const CheckpointFlags& flags, Findings& findings);

// Writes the tensors of the transfer in the format that `--to` gives, or with
// --dry-run prints what it would write. `index` has the shardings to record;
// null: none.
int RunTreeOutput(const Stored& stored, const Transfer& transfer,
                  const ShardsIndex* index, const CheckpointFlags& flags,
                  const CheckpointSettings& settings, const Common& common,
                  Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_TREE_FLAGS_H_
