// `shardc reshard`: one plan's pieces to another's.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <system_error>

#include "checkpoint/shard_plan.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/shard_flags.h"

namespace shardc::cli {
namespace {

struct ReshardFlags {
  ShardFlags shards;
  std::string directory;
};

int RunReshard(const ReshardFlags& flags, const Common& common,
               Findings& findings) {
  std::error_code error;
  if (std::filesystem::equivalent(flags.directory, flags.shards.checkpoint.out,
                                  error)) {
    findings.Add(code::kUsage, {}, "`--out` is the directory that is read",
                 "write to another directory");
    return kFailed;
  }
  const auto stored = ReadStoredPieces(flags.directory, findings);
  if (!stored) return kFailed;
  return RunShards(*stored, flags.shards, common, findings);
}

}  // namespace

Run DeclareReshard(CLI::App& app) {
  auto flags = std::make_shared<ReshardFlags>();
  app.add_option("DIR", flags->directory, "a directory with `shards.json`")
      ->required();
  AddShardFlags(app, flags->shards);
  return [flags](const Common& common, Findings& findings) {
    return RunReshard(*flags, common, findings);
  };
}

}  // namespace shardc::cli
