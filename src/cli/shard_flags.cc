#include "cli/shard_flags.h"

#include <CLI/CLI.hpp>

#include "checkpoint/shard_plan.h"
#include "cli/output.h"
#include "plan/read.h"

namespace shardc::cli {
namespace {

std::optional<ShardOptions> ReadShardFlags(const ShardFlags& flags,
                                           const CheckpointSettings& settings,
                                           Findings& findings) {
  ShardOptions options;
  options.out = flags.checkpoint.out;
  options.dtype = settings.dtype;
  options.select = settings.select;
  const auto per = ParsePer(flags.per);
  if (!per) {
    findings.Add(code::kUsage, {},
                 "`" + flags.per + "` is no way to lay out pieces",
                 "--per takes device, process or shard");
    return std::nullopt;
  }
  options.per = *per;
  const auto mode = ParseMode(flags.mode);
  if (!mode) {
    findings.Add(code::kUsage, {}, "`" + flags.mode + "` is no mode",
                 "--mode takes train, prefill, decode or insert");
    return std::nullopt;
  }
  options.mode = *mode;
  if (!flags.processes.empty()) {
    options.processes =
        ParseInteger("--processes", flags.processes, 1, findings);
    if (!options.processes) return std::nullopt;
  }
  return options;
}

}  // namespace

void AddShardFlags(CLI::App& app, ShardFlags& flags) {
  app.add_option("--plan", flags.plan, "the plan that `shardc plan` wrote")
      ->required()
      ->type_name("FILE");
  app.add_option("--out", flags.checkpoint.out, "directory of the pieces")
      ->required()
      ->type_name("DIR");
  app.add_option("--per", flags.per,
                 "a file per device, per process (replicas once), or per "
                 "distinct set of devices (each piece once)")
      ->type_name("device|process|shard");
  app.add_option("--mode", flags.mode, "whose specs: train by default")
      ->type_name("MODE");
  app.add_option("--processes", flags.processes,
                 "hosts, where the plan's mesh does not say")
      ->type_name("N");
  AddCheckpointFlags(app, flags.checkpoint);
}

int RunShards(const Stored& stored, const ShardFlags& flags,
              const Common& common, Findings& findings) {
  auto settings = ReadCheckpointFlags(flags.checkpoint, common, findings);
  if (!settings) return kFailed;
  const auto options = ReadShardFlags(flags, *settings, findings);
  if (!options) return kFailed;
  const auto plan = ReadPlanFile(flags.plan, findings);
  if (!plan) return kFailed;
  const auto job = PlanShards(stored, *plan, *options, findings);
  if (!job) return kFailed;
  for (const std::string& note : job->notes) {
    Tell(common, "note: " + note + "\n");
  }
  return RunCheckpoint(
      stored, job->transfer,
      [&](const Checksums& sums) {
        return FinishedIndexText(job->index, sums);
      },
      flags.checkpoint, std::move(*settings), common, findings);
}

}  // namespace shardc::cli
