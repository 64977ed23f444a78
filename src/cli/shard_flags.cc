// Reads the options by which split and reshard choose a plan and the files to
// write. On 8 devices, --per device writes 8 files. --per shard writes one file
// for each set of devices that hold the same parts of the tensors.
#include "cli/shard_flags.h"

#include <algorithm>

#include "checkpoint/shard_plan.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/plan_table.h"
#include "cli/tree_flags.h"
#include "plan/read.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

std::optional<ShardOptions> ReadShardFlags(const ShardFlags& flags,
                                           const CheckpointSettings& settings,
                                           Findings& findings) {
  ShardOptions options;
  options.out = flags.checkpoint.out;
  options.dtype = settings.dtype;
  options.select = settings.input.select;
  options.tree = WritesTree(flags.checkpoint);
  if (options.tree && !flags.per.empty()) {
    findings.Add(
        code::kUsage, {},
        "--per is for safetensors files, not for --to " + flags.checkpoint.to,
        "leave the option out");
    return std::nullopt;
  }
  const auto per = ParsePer(flags.per.empty() ? "device" : flags.per);
  if (!per) {
    findings.Add(code::kUsage, {},
                 "`" + flags.per + "` is not a layout of pieces",
                 "--per takes device, process or shard");
    return std::nullopt;
  }
  options.per = *per;
  if (flags.mode.empty()) {
    // Without --mode, the plan's only mode is used. If the plan has several
    // modes, train is used.
  } else if (const auto mode = ParseMode(flags.mode)) {
    options.mode = *mode;
  } else {
    findings.Add(code::kUsage, {}, "`" + flags.mode + "` is not a mode",
                 "--mode takes train, prefill, decode or insert");
    return std::nullopt;
  }
  if (!flags.processes.empty()) {
    options.processes =
        ParseInteger("--processes", flags.processes, 1, findings);
    if (!options.processes) return std::nullopt;
  }
  return options;
}

// Prints a note if some parameters are only on some devices of the plan. An
// orbax checkpoint cannot record this, because its specs are for the complete
// mesh.
void NoteUnrecorded(const ShardsIndex& index, const std::string& to,
                    const Common& common) {
  if (to != "orbax") return;
  const auto count =
      std::ranges::count_if(index.params, [](const IndexedParam& param) {
        return param.placement.has_value() || param.ranks.has_value();
      });
  if (count == 0) return;
  PrintMessage(common,
               "note: orbax does not record on which coordinates of an axis " +
                   Counted(count, "parameter is", "parameters are") +
                   ": without a target they are restored on all of them\n");
}

}  // namespace

Options OptionsOf(ShardFlags& flags) {
  Options options = {
      {.name = "--plan",
       .to = &flags.plan,
       .value = "FILE",
       .help = "plan file that `shardc plan` wrote",
       .required = true},
      {.name = "--out",
       .to = &flags.checkpoint.out,
       .value = "DIR",
       .help = "directory of the pieces",
       .letter = 'o',
       .required = true,
       .also = "--output"},
      {.name = "--per",
       .to = &flags.per,
       .value = "device|process|shard",
       .help = "write a file per device, per process (replicas once), or per "
               "distinct set of devices (each piece once) (default: device)"},
      {.name = "--mode",
       .to = &flags.mode,
       .value = "MODE",
       .help = "mode whose specs are used (default: the plan's only mode, else "
               "train)",
       .words = ModeNames()},
      {.name = "--processes",
       .to = &flags.processes,
       .value = "N",
       .help = "number of hosts, if the plan's mesh does not define it"},
      AllowEditedOption(&flags.allow_edited)};
  Append(options, OptionsOf(flags.checkpoint));
  return options;
}

int RunShards(const std::string& path, ReadCheckpoint read,
              const ShardFlags& flags, const Common& common,
              Findings& findings) {
  auto settings = ReadCheckpointFlags(flags.checkpoint, common, findings);
  if (!settings) return kFailed;
  const auto options = ReadShardFlags(flags, *settings, findings);
  if (!options) return kFailed;
  const auto plan =
      ReadPlanFile(flags.plan, EditedPlanOf(flags.allow_edited), findings);
  if (!plan) return kFailed;
  if (options->mode && !CheckMode(plan->modes, *options->mode, findings)) {
    return kFailed;
  }
  const auto stored = read(path, settings->input, findings);
  if (!stored) return kFailed;
  const auto job = PlanShards(*stored, *plan, *options, findings);
  if (!job) return kFailed;
  for (const std::string& note : job->notes) {
    PrintMessage(common, "note: " + note + "\n");
  }
  if (WritesTree(flags.checkpoint)) {
    NoteUnrecorded(job->index, flags.checkpoint.to, common);
    return RunTreeOutput(*stored, job->transfer, &job->index, flags.checkpoint,
                         *settings, common, findings);
  }
  return RunCheckpoint(
      *stored, job->transfer,
      [&](const Checksums& sums, Sink& out) {
        WriteFinishedIndex(job->index, sums, out);
      },
      flags.checkpoint, std::move(*settings), common, findings);
}

}  // namespace shardc::cli
