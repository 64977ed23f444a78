// `shardc checkpoint reshard`: converts a checkpoint that was split by one plan
// into the files of another plan, for example from dp 2, tp 4 to tp 8. It works
// like `split`, but also reads the files of an earlier split. It does not write
// full tensors in between.
#include "checkpoint/shard_plan.h"
#include "cli/checkpoint_flags.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace shardc::cli {
namespace {

struct ReshardFlags {
  ShardFlags shards;
  std::string directory;
};

int RunReshard(const ReshardFlags& flags, const Common& common,
               Findings& findings) {
  if (RefuseItsOwn(flags.directory, flags.shards.checkpoint, findings)) {
    return kFailed;
  }
  return RunShards(flags.directory, ReadInput, flags.shards, common, findings);
}

Options OptionsOf(ReshardFlags& flags) {
  Options options = {{.name = "DIR",
                      .to = &flags.directory,
                      .help = "a sharded checkpoint; a directory with "
                              "`shards.json`, a checkpoint of orbax, zarr or "
                              "PyTorch DCP, or a set of safetensors files",
                      .required = true}};
  options.push_back(ToOption(flags.shards.checkpoint));
  Append(options, OptionsOf(flags.shards));
  return options;
}

}  // namespace

Declared DeclareCheckpointReshard() { return Declare(OptionsOf, RunReshard); }

}  // namespace shardc::cli
