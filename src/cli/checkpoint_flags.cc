// Reads the common options of split, merge and reshard, and runs the transfer.
// The options set this process's share of the work, a filter of tensor names,
// and a dtype to which tensors are cast. On a terminal, a line shows the
// progress. The share may come from the environment variables of a launcher:
//
//   RANK=3 WORLD_SIZE=8  ->  process 3 of 8
#include "cli/checkpoint_flags.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoint/copy.h"
#include "checkpoint/shard_plan.h"
#include "checkpoint/tree_copy.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/planned.h"
#include "cli/progress.h"
#include "match/match.h"
#include "model/option_value.h"
#include "plan/read.h"
#include "source/json_writer.h"
#include "source/process.h"
#include "source/wording.h"
#include "stored/tree.h"

namespace shardc::cli {
namespace {

constexpr int kMaxThreads = 16;

// Returns a function that shows how many bytes of all are written, and how many
// are written each second.
std::function<void(int64_t done, int64_t total)> WrittenProgress(
    const Common& common) {
  if (common.progress == nullptr) return {};
  const auto start = std::chrono::steady_clock::now();
  return [line = common.progress, start](int64_t done, int64_t total) {
    const std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    const auto rate = static_cast<int64_t>(static_cast<double>(done) /
                                           std::max(taken.count(), 0.001));
    const double part =
        total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
    line->Show("wrote " + BytesText(done) + " of " + BytesText(total) + ", " +
                   BytesText(rate) + "/s",
               part);
  };
}

bool ReadShare(const CheckpointFlags& flags, ProcessShare* share,
               Findings& findings) {
  if (flags.process_index.empty() && flags.process_count.empty()) {
    auto found = DetectProcess(
        [](const char* name) { return std::getenv(name); }, findings);
    if (!found) return false;
    *share = std::move(*found);
    return true;
  }
  if (flags.process_count.empty() ||
      (flags.process_index.empty() && !flags.finalize &&
       flags.process_count != "1")) {
    findings.Add(
        code::kUsage, {},
        "one process of several needs its index and the number of processes",
        "give --process-index and --process-count together");
    return false;
  }
  const auto count =
      ParseInteger("--process-count", flags.process_count, 1, findings);
  const auto index =
      flags.process_index.empty()
          ? std::optional<int64_t>(0)
          : ParseInteger("--process-index", flags.process_index, 0, findings);
  if (!count || !index) return false;
  if (*index >= *count) {
    findings.Add(code::kUsage, {},
                 "--process-index " + std::to_string(*index) +
                     " is not below "
                     "--process-count " +
                     std::to_string(*count),
                 "processes are numbered from 0");
    return false;
  }
  *share = {*index, *count, {}};
  return true;
}

// Parses the name of a dtype in upper or lower case. Returns nullopt after a
// finding.
std::optional<Dtype> ReadDtype(const std::string& text, Findings& findings) {
  std::string upper = text;
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  auto dtype = ParseDtype(upper);
  if (!dtype) dtype = ParseDtype(text);
  if (dtype == Dtype::kF32 || dtype == Dtype::kBF16 || dtype == Dtype::kF16) {
    return dtype;
  }
  findings.Add(code::kDtype, FlagPlace("--cast", text),
               "`" + text + "` is not a dtype to cast to",
               "use f32, bf16 or f16");
  return std::nullopt;
}

// Reads the values of `--cast`, each a dtype or PATTERN=DTYPE. A pattern is a
// regular expression. A tensor is cast to the dtype of the first pattern that
// is found in its name. A dtype without a pattern is for the tensors that no
// pattern matches.
bool ReadDtypes(const Strings& given, DtypeOf* dtype, Findings& findings) {
  if (given.empty()) return true;
  std::vector<Pattern> patterns;
  std::vector<Dtype> types;
  std::optional<Dtype> rest;
  for (const std::string& text : given) {
    const size_t equals = text.rfind('=');
    const bool all = equals == std::string::npos;
    const auto type = ReadDtype(all ? text : text.substr(equals + 1), findings);
    if (!type) return false;
    if (all && rest) {
      findings.Add(
          code::kUsage, {},
          "`--cast " + text + "` is a second dtype for all names",
          "give one dtype for all, and others as `PATTERN=" + text + "`");
      return false;
    }
    if (all) {
      rest = type;
      continue;
    }
    const SourceRef source = MakeSource("--cast", text.substr(0, equals));
    patterns.push_back({source->text(), {source, 0, equals}, 0});
    types.push_back(*type);
  }
  auto matcher = Matcher::Compile(patterns, findings);
  if (!matcher) return false;
  *dtype = [types, rest,
            shared = std::make_shared<Matcher>(std::move(*matcher))](
               const std::string& name) -> std::optional<WantedDtype> {
    for (size_t i = 0; i < types.size(); ++i) {
      if (shared->Find(i, name, 0)) return WantedDtype{types[i], true};
    }
    return rest ? std::optional(WantedDtype{*rest}) : std::nullopt;
  };
  return true;
}

bool ReadSelect(const std::string& text,
                std::function<bool(const std::string&)>* select,
                Findings& findings) {
  if (text.empty()) return true;
  const SourceRef source = MakeSource("--params", text);
  const Pattern pattern{source->text(), {source, 0, text.size()}, 0};
  auto matcher = Matcher::Compile({&pattern, 1}, findings);
  if (!matcher) return false;
  *select = [source, shared = std::make_shared<Matcher>(std::move(*matcher))](
                const std::string& name) {
    return shared->Find(0, name, 0).has_value();
  };
  return true;
}

// Returns whether `path` is `directory` itself or is inside it. `path` need not
// exist.
bool IsBelow(const std::string& directory, const std::string& path) {
  std::error_code error;
  const auto above = std::filesystem::canonical(directory, error);
  if (error) return false;
  const auto below = std::filesystem::weakly_canonical(path, error);
  if (error) return false;
  return std::mismatch(above.begin(), above.end(), below.begin(), below.end())
             .first == above.end();
}

std::string SizeJson(const TransferSize& size, const RunReport* report) {
  return JsonText([&](JsonWriter& json) {
           json.BeginObject();
           json.Members("files", size.files, "shards", size.pieces,
                        "bytes_read", size.bytes_read, "bytes_written",
                        size.bytes_written);
           if (report != nullptr) {
             json.Members("shards_kept", report->pieces_kept, "complete",
                          report->indexed);
           }
           json.EndObject();
         }) +
         "\n";
}

std::string SizeText(const TransferSize& size) {
  return BytesText(size.bytes_written) + " in " +
         Counted(size.pieces, "shard") + " and " + Counted(size.files, "file");
}

int DryRun(const Transfer& transfer, const RunOptions& run,
           const Common& common, Findings& findings) {
  std::vector<int64_t> bytes;
  for (const OutputFile& output : transfer.outputs) {
    bytes.push_back(output.size);
  }
  const TransferSize size =
      MeasureTransfer(transfer, OwnOutputs(bytes, run.share));
  const std::string text =
      common.format == "json"
          ? SizeJson(size, nullptr)
          : "would read " + BytesText(size.bytes_read) + " (" +
                CountText(size.bytes_read) + " bytes) of " +
                Counted(static_cast<int64_t>(transfer.sources.size()), "file") +
                "\nwould write " + SizeText(size) + " (" +
                CountText(size.bytes_written) + " bytes)\n";
  return PutOut(text, findings) ? kDone : kFailed;
}

void PrintReport(const Transfer& transfer, const RunOptions& run,
                 const RunReport& report, int64_t verified,
                 const Common& common) {
  // If there is only one output file, the message names the file instead of the
  // directory.
  const std::string where =
      transfer.outputs.size() == 1 && transfer.index_name.empty()
          ? transfer.PathOf(transfer.outputs[0].name)
          : transfer.directory;
  std::string text;
  if (run.finalize) {
    text = "all parts are present: " + transfer.directory + " is complete\n";
  } else {
    text = "wrote " + SizeText(report.size) + " to " + where;
    if (report.pieces_kept > 0) {
      text += "; " + Counted(report.pieces_kept, "shard was", "shards were") +
              " already written";
    }
    if (verified > 0) {
      text += "; " + Counted(verified, "checksum") + " of the input verified" +
              (verified == 1 ? "s" : "");
    }
    text += '\n';
    if (run.share.count > 1) text = OfProcess(run.share, text);
  }
  PrintMessage(common, text);
}

}  // namespace

std::string OfProcess(const ProcessShare& share, const std::string& text) {
  return "process " + std::to_string(share.index) + " of " +
         std::to_string(share.count) +
         (share.from.empty() ? "" : " (" + share.from + ")") + ": " + text +
         "after all processes have ended, run the command once more with "
         "--finalize\n";
}

Options OptionsOf(CheckpointFlags& flags) {
  return {
      {.name = "--cast",
       .need = HelpNeed::kMost,
       .to = &flags.dtype,
       .value = "TYPE|REGEX=TYPE",
       .help = "cast floating-point tensors while copying; "
               "rounding to nearest: f32, bf16 or f16; with "
               "REGEX=, only tensors whose name the pattern "
               "matches",
       .words = Words({"f32", "bf16", "f16"})},
      {.name = "--params",
       .need = HelpNeed::kMost,
       .to = &flags.select,
       .value = "REGEX",
       .help = "copy only parameters whose names match this pattern"},
      {.name = "--arrays-only",
       .to = &flags.arrays_only,
       .help = "leave out values of an orbax or DCP checkpoint that are not "
               "arrays, such as strings and pickled objects, instead of "
               "keeping or refusing them"},
      {.name = "--buffer",
       .to = &flags.memory,
       .value = "SIZE",
       .help = "most memory for buffers, such as 512MiB (default: 256 MiB for "
               "orbax and DCP checkpoints, or what the largest chunk needs, at "
               "most half of the free memory)"},
      {.name = "--dry-run",
       .need = HelpNeed::kMost,
       .to = &flags.dry_run,
       .help = "print what would be read and written; in bytes, "
               "and write nothing"},
      {.name = "--verify",
       .need = HelpNeed::kOften,
       .to = &flags.verify,
       .help = "read back all written data and compare checksums"},
      {.name = "--no-verify",
       .to = &flags.no_verify,
       .help = "do not compare the shards that are read with their recorded "
               "checksums"},
      {.name = "--process-index",
       .need = HelpNeed::kOften,
       .to = &flags.process_index,
       .value = "I",
       .help = "index of this process among several (default: from SLURM, Open "
               "MPI or torchrun)"},
      {.name = "--process-count",
       .to = &flags.process_count,
       .value = "N",
       .help = "number of processes that share the work"},
      {.name = "--finalize",
       .to = &flags.finalize,
       .help = "check that all processes have written their parts, and write "
               "the index"},
      {.name = "--reuse",
       .to = &flags.reuse,
       .help = "overwrite the files of an earlier set in place instead of "
               "keeping them until the new set is complete; needs no second "
               "copy on the disk"},
      {.name = "--no-sync",
       .to = &flags.no_sync,
       .help = "do not wait for the disk; a power failure may lose the set"}};
}

std::optional<CheckpointSettings> ReadCheckpointFlags(
    const CheckpointFlags& flags, const Common& common, Findings& findings) {
  CheckpointSettings settings;
  if (!ReadShare(flags, &settings.run.share, findings) ||
      !ReadDtypes(flags.dtype, &settings.dtype, findings) ||
      !ReadSelect(flags.select, &settings.input.select, findings)) {
    return std::nullopt;
  }
  if (!flags.memory.empty()) {
    settings.run.memory_bytes = ParseBytes("--buffer", flags.memory, findings);
    if (!settings.run.memory_bytes) return std::nullopt;
    settings.input.memory_bytes = settings.run.memory_bytes;
  }
  settings.input.arrays_only = flags.arrays_only;
  settings.input.form = FormatOf(flags).form;
  if (WritesTree(flags) && RefuseForTree(flags, findings)) {
    return std::nullopt;
  }
  settings.run.threads = std::min(ThreadsOr(common.threads), kMaxThreads);
  settings.run.finalize = flags.finalize;
  settings.run.verify = flags.verify;
  settings.run.reuse = flags.reuse;
  settings.run.sync = !flags.no_sync;
  return settings;
}

bool RefuseItsOwn(const std::string& source, const CheckpointFlags& flags,
                  Findings& findings) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(source, error)) return false;
  const bool same = fs::equivalent(source, flags.out, error);
  if (!same && (!stored::IsTree(source) || !IsBelow(source, flags.out))) {
    return false;
  }
  findings.Add(code::kUsage, {},
               same ? "`--output` is the directory that is read"
                    : "`--output` is inside the checkpoint that is read",
               "write to another directory");
  return true;
}

int RunCheckpoint(const Stored& stored, const Transfer& transfer,
                  const WriteIndex& index, const CheckpointFlags& flags,
                  CheckpointSettings settings, const Common& common,
                  Findings& findings) {
  if (flags.dry_run) {
    if (RefuseInputs(transfer, findings)) return kFailed;
    return DryRun(transfer, settings.run, common, findings);
  }
  for (const std::string& note : stored.notes) {
    PrintMessage(common, "note: " + note + "\n");
  }
  int64_t verified = 0;
  ShowStage(common, "reading the stored checksums");
  if (!flags.no_verify && !flags.finalize &&
      !VerifyStored(stored, settings.run.share, &verified, findings)) {
    return kFailed;
  }
  RunReport report;
  bool good = false;
  {
    const InterruptMessage notice(
        "\nshardc: interrupted; the complete shards are in hidden files in " +
        Printable(transfer.directory) +
        ", and the same command continues from there\n");
    settings.run.progress = WrittenProgress(common);
    good = RunTransfer(transfer, index, settings.run, &report, findings);
  }
  if (!good) return kFailed;
  PrintReport(transfer, settings.run, report, verified, common);
  if (common.format == "json" &&
      !PutOut(SizeJson(report.size, &report), findings)) {
    return kFailed;
  }
  return kDone;
}

// Writes a tree for split, merge and reshard. A tree is a folder in the format
// of orbax or DCP. It is written under a temporary name, and renamed when it is
// complete. A run after an interruption continues with the contents of that
// folder. Several processes may each write a share.
//
//   reshard ckpt --plan new.json --as orbax --output new
//   writes new.orbax-checkpoint-tmp-shardc, which is renamed to new at the end

namespace {

// Returns the path of the folder in which a tree is written until it is
// complete.
std::string UnfinishedPath(const CheckpointFlags& flags) {
  std::string out = flags.out;
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  if (const auto form = FormatOf(flags).form) {
    out += stored::UnfinishedEnding(*form);
  }
  return out;
}

// Returns the message that a tree was written. `text` has the number of arrays,
// the bytes and the folder.
std::string TreeText(const std::string& text, const CheckpointFlags& flags,
                     const ProcessShare& share,
                     const stored::WriteReport& written) {
  if (flags.finalize) {
    return "all parts are present: " + flags.out + " is complete\n";
  }
  std::string out = "wrote " + text;
  if (share.count > 1) {
    out = "wrote " + Counted(written.chunks, "chunk") + " for " + flags.out;
  }
  if (written.chunks_kept > 0) {
    out += "; " + Counted(written.chunks_kept, "chunk was", "chunks were") +
           " already written";
  }
  out += '\n';
  return share.count > 1 ? OfProcess(share, out) : out;
}

}  // namespace

const OutputFormat& FormatOf(const CheckpointFlags& flags) {
  const auto formats = OutputFormats();
  const auto found = std::find_if(
      formats.begin(), formats.end(),
      [&](const OutputFormat& format) { return format.name == flags.to; });
  return found == formats.end() ? formats.front() : *found;
}

bool RefuseForTree(const CheckpointFlags& flags, Findings& findings) {
  const std::pair<bool, std::string_view> kOthers[] = {
      {flags.reuse, "--reuse"}, {flags.no_sync, "--no-sync"}};
  for (const auto& [given, name] : kOthers) {
    if (!given) continue;
    findings.Add(code::kUsage, {},
                 std::string(name) +
                     " is for safetensors files, not for --as " + flags.to,
                 "leave the option out");
    return true;
  }
  return false;
}

Option ToOption(CheckpointFlags& flags) {
  std::string names = Join(OutputFormats(), "|", &OutputFormat::name);
  return {.name = "--as",
          .need = HelpNeed::kMost,
          .to = &flags.to,
          .value = names,
          .help =
              "format to write (default: safetensors); orbax and dcp write "
              "a checkpoint folder that orbax or "
              "torch.distributed.checkpoint restores on any devices",
          .checked = true};
}

bool WritesTree(const CheckpointFlags& flags) {
  return flags.to != OutputFormats().front().name;
}

int RunTreeOutput(const Stored& stored, const Transfer& transfer,
                  const ShardsIndex* index, const CheckpointFlags& flags,
                  const CheckpointSettings& settings, const Common& common,
                  Findings& findings) {
  for (const std::string& note : stored.notes) {
    PrintMessage(common, "note: " + note + "\n");
  }
  int64_t bytes = 0;
  for (const TransferTensor& tensor : transfer.tensors) {
    bytes += PartBytes(tensor, FullBox(tensor.shape));
  }
  const auto arrays = static_cast<int64_t>(transfer.tensors.size());
  stored::WriteReport written;
  const auto report = [&](const std::string& text) {
    if (common.format != "json") return text;
    return JsonText([&](JsonWriter& json) {
             json.BeginObject();
             json.Members("arrays", arrays, "bytes", bytes);
             if (!flags.dry_run) {
               json.Members("chunks", written.chunks, "chunks_kept",
                            written.chunks_kept);
             }
             json.Member("complete", written.complete);
             json.EndObject();
           }) +
           "\n";
  };
  const std::string text =
      Counted(arrays, "array") + " of " + BytesText(bytes) + " to " + flags.out;
  if (flags.dry_run) {
    return PutOut(report("would write " + text + "\n"), findings) ? kDone
                                                                  : kFailed;
  }
  int64_t verified = 0;
  ShowStage(common, "reading the stored checksums");
  if (!flags.no_verify && !flags.finalize &&
      !VerifyStored(stored, settings.run.share, &verified, findings)) {
    return kFailed;
  }
  TreeOutput output;
  output.folder = flags.out;
  output.index = index;
  output.memory_bytes = settings.run.memory_bytes.value_or(kTreeBytes);
  output.threads = settings.run.threads;
  output.share = settings.run.share;
  output.finalize = settings.run.finalize;
  output.verify = settings.run.verify;
  const OutputFormat& format = FormatOf(flags);
  {
    const InterruptMessage notice(
        "\nshardc: interrupted; " + Printable(flags.out) +
        " is not complete, and the same command continues from what is in " +
        Printable(UnfinishedPath(flags)) + "\n");
    ShowStage(common, "writing " + text);
    if (!WriteTransfer(transfer, stored.leaves, format, output, &written,
                       findings)) {
      return kFailed;
    }
  }
  PrintMessage(common, TreeText(text, flags, settings.run.share, written));
  if (common.format != "json") return kDone;
  return PutOut(report({}), findings) ? kDone : kFailed;
}

// Reads the options by which split and reshard choose a plan and the files to
// write. On 8 devices, --per device writes 8 files. --per shard writes one file
// for each set of devices that hold the same parts of the tensors.

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
        "--per is for safetensors files, not for --as " + flags.checkpoint.to,
        "leave the option out");
    return std::nullopt;
  }
  const auto per = ParsePer(flags.per.empty() ? "device" : flags.per);
  if (!per) {
    findings.Add(code::kUsage, {},
                 "`" + flags.per + "` is not a layout of shards",
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
      {.name = "--output",
       .need = HelpNeed::kMost,
       .to = &flags.checkpoint.out,
       .value = "DIR",
       .help = "directory of the shards",
       .letter = 'o',
       .required = true},
      {.name = "--per",
       .need = HelpNeed::kOften,
       .to = &flags.per,
       .value = "device|process|shard",
       .help = "what has a file of its own; a device, a process "
               "(replicas once), or a distinct set of devices "
               "(each shard once) (default: device)"},
      {.name = "--mode",
       .to = &flags.mode,
       .value = "MODE",
       .help = "mode whose specs are used (default: the plan's only mode, else "
               "train)",
       .words = ModeNames},
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
