// Reads the common options of split, merge and reshard, and runs the transfer.
// The options set this process's share of the work, a filter of tensor names,
// and a dtype to which tensors are cast. On a terminal, a line shows the
// progress. The share may come from the environment variables of a launcher:
//
//   RANK=3 WORLD_SIZE=8  ->  process 3 of 8
#include "cli/checkpoint_flags.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoint/copy.h"
#include "checkpoint/tree_output.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/tree_flags.h"
#include "match/match.h"
#include "source/json_writer.h"
#include "source/thread_pool.h"
#include "source/wording.h"
#include "stored/tree.h"

namespace shardc::cli {
namespace {

constexpr int kMaxThreads = 16;

// Prints a line of progress on a terminal, and overwrites it at most ten times
// a second.
class Progress {
 public:
  void operator()(int64_t done, int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100) && done < total) return;
    last_ = now;
    const auto seconds = std::chrono::duration<double>(now - start_).count();
    const auto rate = static_cast<int64_t>(static_cast<double>(done) /
                                           std::max(seconds, 0.001));
    const int64_t percent =
        total == 0 ? 100
                   : static_cast<int64_t>(100.0 * static_cast<double>(done) /
                                          static_cast<double>(total));
    const std::string text = "\r\x1b[K" + std::to_string(percent) + "%  " +
                             BytesText(done) + " of " + BytesText(total) +
                             "  " + BytesText(rate) + "/s";
    (void)!::write(STDERR_FILENO, text.data(), text.size());
    shown_ = true;
  }
  ~Progress() {
    constexpr std::string_view kClear = "\r\x1b[K";
    if (shown_) (void)!::write(STDERR_FILENO, kClear.data(), kClear.size());
  }

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = start_;
  bool shown_ = false;
};

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
  findings.Add(code::kDtype, FlagPlace("--dtype", text),
               "`" + text + "` is not a dtype to cast to",
               "use f32, bf16 or f16");
  return std::nullopt;
}

// Reads the values of `--dtype`, each a dtype or PATTERN=DTYPE. A pattern is a
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
          "`--dtype " + text + "` is a second dtype for all names",
          "give one dtype for all, and others as `PATTERN=" + text + "`");
      return false;
    }
    if (all) {
      rest = type;
      continue;
    }
    const SourceRef source = MakeSource("--dtype", text.substr(0, equals));
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
  const SourceRef source = MakeSource("--select", text);
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
           json.Member("files", size.files);
           json.Member("pieces", size.pieces);
           json.Member("bytes_read", size.bytes_read);
           json.Member("bytes_written", size.bytes_written);
           if (report != nullptr) {
             json.Member("pieces_kept", report->pieces_kept);
             json.Member("complete", report->indexed);
           }
           json.EndObject();
         }) +
         "\n";
}

std::string SizeText(const TransferSize& size) {
  return BytesText(size.bytes_written) + " in " +
         Counted(size.pieces, "piece") + " and " + Counted(size.files, "file");
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
      text += "; " + Counted(report.pieces_kept, "piece was", "pieces were") +
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
      {.name = "--dtype",
       .to = &flags.dtype,
       .value = "TYPE|REGEX=TYPE",
       .help = "cast floating-point tensors while copying, rounding to "
               "nearest: f32, bf16 or f16; with REGEX=, only tensors whose "
               "name the pattern matches",
       .words = {"f32", "bf16", "f16"}},
      {.name = "--select",
       .to = &flags.select,
       .value = "REGEX",
       .help = "copy only parameters whose names match this pattern"},
      {.name = "--arrays-only",
       .to = &flags.arrays_only,
       .help = "leave out values of an orbax or DCP checkpoint that are not "
               "arrays, such as strings and pickled objects, instead of "
               "keeping or refusing them"},
      {.name = "--memory",
       .to = &flags.memory,
       .value = "SIZE",
       .help = "most memory for buffers, such as 512MiB (default: 256 MiB for "
               "orbax and DCP checkpoints, or what the largest chunk needs, at "
               "most half of the free memory)"},
      {.name = "--dry-run",
       .to = &flags.dry_run,
       .help =
           "print what would be read and written, in bytes, and write nothing"},
      {.name = "--verify",
       .to = &flags.verify,
       .help = "read back all written data and compare checksums"},
      {.name = "--no-verify",
       .to = &flags.no_verify,
       .help = "do not compare the pieces that are read with their recorded "
               "checksums"},
      {.name = "--process-index",
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
    settings.run.memory_bytes = ParseBytes("--memory", flags.memory, findings);
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
               same ? "`--out` is the directory that is read"
                    : "`--out` is inside the checkpoint that is read",
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
  if (!flags.no_verify && !flags.finalize &&
      !VerifyStored(stored, settings.run.share, &verified, findings)) {
    return kFailed;
  }
  RunReport report;
  bool good = false;
  {
    const InterruptMessage notice(
        "\nshardc: interrupted; the complete pieces are in hidden files in " +
        Printable(transfer.directory) +
        ", and the same command continues from there\n");
    Progress progress;
    if (!common.quiet && ::isatty(STDERR_FILENO) == 1) {
      settings.run.progress = std::ref(progress);
    }
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

}  // namespace shardc::cli
