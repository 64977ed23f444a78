// `shardc checkpoint merge`: joins pieces to full tensors. Writes one file,
// several files or, with --as, a checkpoint in the format of another library.
// Several files (model-00001-of-00002.safetensors and so on) have at most
// --max-shard-size of data each. A larger tensor gets its own file.
#include "checkpoint/shard_plan.h"
#include "checkpoint/stored.h"
#include "cli/checkpoint_flags.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "model/option_value.h"

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
  options.select = settings->input.select;
  options.tree = WritesTree(flags.checkpoint);
  if (options.tree) {
    if (!flags.max_shard_size.empty()) {
      findings.Add(code::kUsage, {},
                   "--max-shard-size is for safetensors files, not for --as " +
                       flags.checkpoint.to,
                   "leave the option out");
      return kFailed;
    }
  } else if (!flags.max_shard_size.empty()) {
    options.max_file_bytes =
        ParseBytes("--max-shard-size", flags.max_shard_size, findings);
    if (!options.max_file_bytes) return kFailed;
  } else if (!options.out.ends_with(".safetensors")) {
    findings.Add(code::kUsage, {},
                 "`--output " + options.out + "` is not a .safetensors file",
                 "a directory needs --max-shard-size, such as 5GB");
    return kFailed;
  }
  if (RefuseItsOwn(flags.directory, flags.checkpoint, findings)) {
    return kFailed;
  }
  const auto stored = ReadInput(flags.directory, settings->input, findings);
  if (!stored) return kFailed;
  const auto transfer = PlanMerge(*stored, options, findings);
  if (!transfer) return kFailed;
  if (WritesTree(flags.checkpoint)) {
    return RunTreeOutput(*stored, *transfer, nullptr, flags.checkpoint,
                         *settings, common, findings);
  }
  return RunCheckpoint(
      *stored, *transfer,
      [&](const Checksums&, Sink& out) { WriteHfIndex(*transfer, out); },
      flags.checkpoint, std::move(*settings), common, findings);
}

Options OptionsOf(MergeFlags& flags) {
  Options options = {
      {.name = "DIR",
       .to = &flags.directory,
       .help = "a sharded checkpoint; a directory with "
               "`shards.json`, a checkpoint of orbax, zarr or "
               "PyTorch DCP, or a set of safetensors files",
       .required = true},
      {.name = "--output",
       .need = HelpNeed::kOften,
       .to = &flags.checkpoint.out,
       .value = "PATH",
       .help = "a .safetensors file; with --max-shard-size or --as a directory",
       .letter = 'o',
       .required = true},
      {.name = "--max-shard-size",
       .need = HelpNeed::kOften,
       .to = &flags.max_shard_size,
       .value = "SIZE",
       .help = "most data per file, such as 5GB; writes a Hugging Face index"}};
  options.push_back(ToOption(flags.checkpoint));
  Append(options, OptionsOf(flags.checkpoint));
  return options;
}

}  // namespace

Declared DeclareCheckpointMerge() { return Declare(OptionsOf, RunMerge); }

}  // namespace shardc::cli
