// `shardc merge`: pieces to whole tensors again.
#include <CLI/CLI.hpp>
#include <memory>

#include "checkpoint/merge_plan.h"
#include "cli/checkpoint_flags.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace shardc::cli {
namespace {

struct MergeFlags {
  CheckpointFlags checkpoint;
  std::string directory;
  std::string max_shard_size;
};

int RunMerge(const MergeFlags& flags, const Common& common,
             Findings& findings) {
  auto settings = ReadCheckpointFlags(flags.checkpoint, common, findings);
  if (!settings) return kFailed;
  MergeOptions options;
  options.out = flags.checkpoint.out;
  options.dtype = settings->dtype;
  options.select = settings->select;
  if (!flags.max_shard_size.empty()) {
    options.max_file_bytes =
        ParseBytes("--max-shard-size", flags.max_shard_size, findings);
    if (!options.max_file_bytes) return kFailed;
  } else if (!options.out.ends_with(".safetensors")) {
    findings.Add(code::kUsage, {},
                 "`--out " + options.out + "` is not a .safetensors file",
                 "a directory needs --max-shard-size, such as 5GB");
    return kFailed;
  }
  const auto stored = ReadStoredPieces(flags.directory, findings);
  if (!stored) return kFailed;
  const auto transfer = PlanMerge(*stored, options, findings);
  if (!transfer) return kFailed;
  return RunCheckpoint(
      *stored, *transfer,
      [&](const Checksums&) { return HfIndexText(*transfer); },
      flags.checkpoint, std::move(*settings), common, findings);
}

}  // namespace

Run DeclareMerge(CLI::App& app) {
  auto flags = std::make_shared<MergeFlags>();
  app.add_option("DIR", flags->directory, "a directory with `shards.json`")
      ->required();
  app.add_option("--out", flags->checkpoint.out,
                 "a .safetensors file, or with --max-shard-size a directory")
      ->required()
      ->type_name("PATH");
  app.add_option("--max-shard-size", flags->max_shard_size,
                 "files of at most this much data, with a Hugging Face index")
      ->type_name("SIZE");
  AddCheckpointFlags(app, flags->checkpoint);
  return [flags](const Common& common, Findings& findings) {
    return RunMerge(*flags, common, findings);
  };
}

}  // namespace shardc::cli
