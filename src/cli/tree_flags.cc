// Writes a tree for split, merge and reshard. A tree is a folder in the format
// of orbax or DCP. It is written under a temporary name, and renamed when it is
// complete. A run after an interruption continues with the contents of that
// folder. Several processes may each write a share.
//
//   reshard ckpt --plan new.json --to orbax --out new
//   writes new.orbax-checkpoint-tmp-shardc, which is renamed to new at the end
#include "cli/tree_flags.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "checkpoint/copy.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::cli {
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
                     " is for safetensors files, not for --to " + flags.to,
                 "leave the option out");
    return true;
  }
  return false;
}

Option ToOption(CheckpointFlags& flags) {
  std::string names;
  for (const OutputFormat& format : OutputFormats()) {
    names += (names.empty() ? "" : "|") + std::string(format.name);
  }
  return {.name = "--to",
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
             json.Member("arrays", arrays);
             json.Member("bytes", bytes);
             if (!flags.dry_run) {
               json.Member("chunks", written.chunks);
               json.Member("chunks_kept", written.chunks_kept);
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
    if (!WriteTransfer(transfer, stored.leaves, format, output, &written,
                       findings)) {
      return kFailed;
    }
  }
  PrintMessage(common, TreeText(text, flags, settings.run.share, written));
  if (common.format != "json") return kDone;
  return PutOut(report({}), findings) ? kDone : kFailed;
}

}  // namespace shardc::cli
