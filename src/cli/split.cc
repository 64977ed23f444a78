// `shardc split`: a checkpoint to the pieces of a plan.
#include <CLI/CLI.hpp>
#include <memory>

#include "checkpoint/shard_plan.h"
#include "cli/checkpoint_flags.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/shard_flags.h"

namespace shardc::cli {
namespace {

struct SplitFlags {
  ShardFlags shards;
  std::string checkpoint;
};

int RunSplit(const SplitFlags& flags, const Common& common,
             Findings& findings) {
  const auto stored = ReadStored(flags.checkpoint, findings);
  if (!stored) return kFailed;
  return RunShards(*stored, flags.shards, common, findings);
}

}  // namespace

Run DeclareSplit(CLI::App& app) {
  auto flags = std::make_shared<SplitFlags>();
  app.add_option("--checkpoint", flags->checkpoint,
                 "a .safetensors file, an index, or a directory of either")
      ->required()
      ->type_name("PATH");
  AddShardFlags(app, flags->shards);
  return [flags](const Common& common, Findings& findings) {
    return RunSplit(*flags, common, findings);
  };
}

}  // namespace shardc::cli
