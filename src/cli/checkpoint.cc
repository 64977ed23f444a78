// `shardc checkpoint`: the commands that read and write checkpoints. `list`
// prints the tensors of one; the others have files of their own.
#include <cstdint>
#include <string>
#include <utility>

#include "checkpoint/stored.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "emit/plans/input_text.h"
#include "model/dtype.h"
#include "model/manifest.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct NoFlags {};

int RunCheckpointAlone(const NoFlags&, const Common&, Findings& findings) {
  findings.Add(code::kUsage, {}, "`checkpoint` is the first of two words",
               "write `shardc checkpoint list`, `split`, `merge` or `reshard`");
  return kFailed;
}

Options OptionsOf(NoFlags&) { return {}; }

struct ListFlags {
  std::string path, output;
};

TensorType TypeOf(const StoredTensor& tensor) {
  return {tensor.shape, tensor.dtype};
}

// Returns the number of boxes in which the tensor is stored.
int64_t PiecesOf(const StoredTensor& tensor, const Stored& stored) {
  if (!tensor.array) return static_cast<int64_t>(tensor.pieces.size());
  return stored.tree->arrays[*tensor.array].Chunks();
}

std::string OthersText(const Stored& stored) {
  if (stored.others.empty()) return {};
  std::string out = "\nnot tensors " +
                    CountText(static_cast<int64_t>(stored.others.size())) +
                    "\n\n";
  for (const OtherValue& other : stored.others) {
    out += "  " + other.name + "  " + other.what + "\n";
  }
  return out;
}

std::string ListText(const Stored& stored) {
  ManifestBuilder builder;
  int64_t pieces = 0;
  for (const StoredTensor& one : stored.tensors) {
    builder.Add(one.name, TypeOf(one));
    pieces += PiecesOf(one, stored);
  }
  builder.manifest().notes = stored.notes;
  return "stored      " + Counted(pieces, "shard") +
         (stored.tree != nullptr
              ? " of " + stored.tree->form
              : " in " + Counted(static_cast<int64_t>(stored.files.size()),
                                 "safetensors file")) +
         "\n" + ManifestText(builder.Take()) + OthersText(stored);
}

void WriteListJson(const Stored& stored, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Rows("tensors", stored.tensors, [&](const StoredTensor& one) {
    json.Member("name", one.name);
    WriteTypeMembers(json, TypeOf(one));
    json.Members("bytes", TypeOf(one).Bytes(), "shards", PiecesOf(one, stored));
  });
  json.Rows("others", stored.others, [&](const OtherValue& one) {
    json.Members("name", one.name, "what", one.what);
  });
  json.Member("notes", stored.notes);
  json.EndObject();
  out.Put('\n');
}

int RunList(const ListFlags& flags, const Common& common, Findings& findings) {
  InputOptions options;
  options.listing = true;
  const auto stored = ReadInput(flags.path, options, findings);
  if (!stored) return kFailed;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteListJson(*stored, out);
    } else {
      out.Append(ListText(*stored));
    }
  };
  return PutResult(write, flags.output, findings) ? kDone : kFailed;
}

Options OptionsOf(ListFlags& flags) {
  return {{.name = "PATH",
           .to = &flags.path,
           .help = "a .safetensors file, an index, or a folder; of "
                   "either, with `shards.json`, or of an orbax, zarr "
                   "or PyTorch DCP checkpoint",
           .required = true},
          OutputOption(&flags.output)};
}

}  // namespace

Declared DeclareCheckpoint() { return Declare(OptionsOf, RunCheckpointAlone); }
Declared DeclareCheckpointList() { return Declare(OptionsOf, RunList); }

}  // namespace shardc::cli
