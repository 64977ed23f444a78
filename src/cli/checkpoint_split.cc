// `shardc checkpoint split`: splits the tensors of a checkpoint as a plan
// shards them, and writes the parts.
#include <filesystem>
#include <system_error>

#include "checkpoint/shard_plan.h"
#include "cli/checkpoint_flags.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace shardc::cli {
namespace {

struct SplitFlags {
  ShardFlags shards;
  std::string checkpoint;
};

int RunSplit(const SplitFlags& flags, const Common& common,
             Findings& findings) {
  std::error_code error;
  if (std::filesystem::exists(
          std::filesystem::path(flags.checkpoint) / kShardsName, error)) {
    findings.Add(
        code::kUsage, Place{MakeSource(flags.checkpoint, {})},
        "`" + flags.checkpoint + "` contains the shards of a split checkpoint",
        "`shardc checkpoint reshard " + flags.checkpoint +
            " --plan ...` converts them to another plan");
    return kFailed;
  }
  if (RefuseItsOwn(flags.checkpoint, flags.shards.checkpoint, findings)) {
    return kFailed;
  }
  return RunShards(flags.checkpoint, ReadFullInput, flags.shards, common,
                   findings);
}

Options OptionsOf(SplitFlags& flags) {
  Options options = {{.name = "--checkpoint",
                      .need = HelpNeed::kOften,
                      .to = &flags.checkpoint,
                      .value = "PATH",
                      .help = "a .safetensors file, an index, or a folder; of "
                              "either, or of an orbax, zarr or PyTorch DCP "
                              "checkpoint",
                      .required = true}};
  options.push_back(ToOption(flags.shards.checkpoint));
  Append(options, OptionsOf(flags.shards));
  return options;
}

}  // namespace

Declared DeclareCheckpointSplit() { return Declare(OptionsOf, RunSplit); }

}  // namespace shardc::cli
