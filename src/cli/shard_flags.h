// The options by which split and reshard choose a plan and the files to write.
#ifndef SHARDC_CLI_SHARD_FLAGS_H_
#define SHARDC_CLI_SHARD_FLAGS_H_

#include <optional>
#include <string>

#include "checkpoint/stored.h"
#include "cli/checkpoint_flags.h"
#include "cli/command.h"

namespace shardc::cli {

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
// or, with `--to`, as another system's checkpoint. Returns the exit status.
int RunShards(const std::string& path, ReadCheckpoint read,
              const ShardFlags& flags, const Common& common,
              Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SHARD_FLAGS_H_
