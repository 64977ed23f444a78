// Assigns the tensors of a merge to files, in the order of the tensors. A new
// file begins when the next tensor would exceed the size limit of a file. A
// tensor that is larger than the limit gets its own file.
//
//   6, 5 and 4 MB in files of at most 10 MB  ->  {6}, {5, 4}: the files
//   model-00001-of-00002 and model-00002-of-00002, with an index
#include "checkpoint/merge_plan.h"

#include <utility>

#include "checkpoint/shard_plan.h"
#include "checkpoint/tree_record.h"
#include "model/safetensors_header.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";

std::string Digits(size_t number) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
}

// Divides the tensors, in their order, into files of at most `most` bytes of
// data, or into one file if `most` is nullopt. A tensor that is larger than
// `most` gets its own file. Returns the indices of the tensors in each file.
std::vector<std::vector<uint32_t>> Deal(const Transfer& transfer,
                                        std::optional<int64_t> most) {
  std::vector<std::vector<uint32_t>> files(1);
  int64_t used = 0;
  for (uint32_t i = 0; i < transfer.tensors.size(); ++i) {
    const TransferTensor& tensor = transfer.tensors[i];
    const int64_t bytes = PartBytes(tensor, tensor.parts[0]);
    if (most && !files.back().empty() && bytes > *most - used) {
      files.emplace_back();
      used = 0;
    }
    files.back().push_back(i);
    used += bytes;
  }
  return files;
}

OutputFile MakeOutput(const Transfer& transfer, std::string name,
                      const std::vector<uint32_t>& tensors,
                      const Metadata& metadata) {
  OutputFile output;
  output.name = std::move(name);
  std::vector<HeaderEntry> entries;
  int64_t offset = 0;
  for (const uint32_t index : tensors) {
    const TransferTensor& tensor = transfer.tensors[index];
    const int64_t bytes = PartBytes(tensor, tensor.parts[0]);
    entries.push_back({tensor.name, tensor.to,
                       JoinShape(tensor.shape, tensor.dim_parts), bytes});
    output.pieces.push_back({index, 0, offset, bytes});
    offset += bytes;
  }
  output.header = SafetensorsHeaderText(entries, metadata);
  const auto data = static_cast<int64_t>(output.header.size());
  for (OutputPiece& piece : output.pieces) piece.offset += data;
  output.size = data + offset;
  return output;
}

void SetPlaces(const MergeOptions& options, Transfer& transfer) {
  if (options.max_file_bytes) {
    transfer.directory = options.out;
    transfer.tag = "merge";
    transfer.series = {"model-"};
    return;
  }
  const size_t slash = options.out.rfind('/');
  transfer.directory = slash == std::string::npos ? "."
                       : slash == 0               ? "/"
                                    : options.out.substr(0, slash);
  transfer.tag = options.out.substr(slash == std::string::npos ? 0 : slash + 1);
}

}  // namespace

std::optional<Transfer> PlanMerge(const Stored& stored,
                                  const MergeOptions& options,
                                  Findings& findings) {
  const size_t before = findings.errors();
  Transfer transfer;
  SetPlaces(options, transfer);
  transfer.sources = stored.files;
  transfer.tree = stored.tree;
  for (const StoredTensor& tensor : stored.tensors) {
    if (options.select && !options.select(tensor.name)) continue;
    TransferTensor moved;
    moved.name = tensor.name;
    moved.dim_parts = tensor.dim_parts;
    moved.shape = SplitShape(tensor.shape, tensor.dim_parts);
    moved.from = tensor.dtype;
    moved.to = CastTo(tensor.dtype, tensor.name, options.dtype, findings);
    moved.sources = tensor.pieces;
    moved.array = tensor.array;
    moved.places = tensor.places;
    moved.in_tree = tensor.in_tree;
    if (options.tree && !tensor.dim_parts.empty()) {
      findings.Add(code::kInexpressible, {MakeSource(stored.path, {})},
                   ShortQuote(tensor.name) +
                       " was split in each of several parts of a dimension, "
                       "and a tree is written from ranges of complete "
                       "dimensions",
                   "merge it to safetensors files first, and write the tree "
                   "from these");
      continue;
    }
    moved.parts = {FullBox(moved.shape)};
    const auto fault = options.tree ? std::nullopt : CheckByteBoundaries(moved);
    if (fault) {
      findings.Add(code::kSize, {}, *fault);
      return std::nullopt;
    }
    transfer.tensors.push_back(std::move(moved));
  }
  if (findings.errors() > before) return std::nullopt;
  if (options.select && transfer.tensors.empty()) {
    AddNothingSelected(stored.tensors.size(), findings);
    return std::nullopt;
  }
  const auto files = Deal(transfer, options.max_file_bytes);
  const Metadata rest = WithoutTreeRecord(stored.metadata);
  for (size_t i = 0; i < files.size(); ++i) {
    std::string name =
        options.max_file_bytes ? "model.safetensors" : transfer.tag;
    if (files.size() > 1) {
      name = "model-" + Digits(i + 1) + "-of-" + Digits(files.size()) +
             ".safetensors";
    }
    transfer.outputs.push_back(MakeOutput(transfer, std::move(name), files[i],
                                          i == 0 ? stored.metadata : rest));
  }
  if (files.size() > 1) transfer.index_name = std::string(kIndexName);
  return transfer;
}

void WriteHfIndex(const Transfer& transfer, Sink& out) {
  int64_t total = 0;
  for (const OutputFile& output : transfer.outputs) {
    for (const OutputPiece& piece : output.pieces) total += piece.bytes;
  }
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Key("metadata");
  json.BeginObject(JsonLayout::kLines);
  json.Member("total_size", total);
  json.EndObject();
  json.Key("weight_map");
  json.BeginObject(JsonLayout::kLines);
  for (const OutputFile& output : transfer.outputs) {
    for (const OutputPiece& piece : output.pieces) {
      json.Member(transfer.tensors[piece.tensor].name, output.name);
    }
  }
  json.EndObject();
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
