// Opens checkpoints that the safetensors writer of DCP saved. Every rank writes
// its own files. The header of a file states for each piece at which offset of
// the full tensor the piece begins. For example:
//
//   shard-00001-model-00001-of-00001.safetensors   `w` [2, 3] at [0, 0]
//   shard-00002-model-00001-of-00001.safetensors   `w` [2, 3] at [2, 0]
//
// Together these are a tensor `w` of shape [4, 3]. No file states the full
// shape. The size of each dimension is the largest end of a piece in this
// dimension.
//
// shardc refuses two kinds of broken saves. The writer of torch 2.15 puts
// values that are not tensors before the header, so the file is not a
// safetensors file. Without `save_distributed`, all ranks write the same file,
// so only the pieces of one rank remain.
//
// shardc also refuses a set of files if its names or an index show that files
// are missing. If only files of the first rank are present, a note states that
// others may be missing.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "source/checked.h"
#include "source/file.h"
#include "source/index.h"
#include "source/input_file.h"
#include "source/json.h"
#include "source/little_endian.h"
#include "source/wording.h"
#include "stored/cover.h"
#include "stored/format.h"
#include "stored/shard_names.h"

namespace shardc::stored {
namespace {

constexpr std::string_view kShardsName = "safetensors shards of PyTorch DCP";
constexpr std::string_view kEnding = ".safetensors";
constexpr std::string_view kInfo = "DCP_SHARDING_INFO";
constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr int64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Returns the length of the header, which is stored in the first eight bytes of
// a file.
uint64_t HeaderLength(std::string_view head) {
  return LittleEndian(head.substr(0, AsIndex(kLengthBytes)));
}

// Returns whether the header begins with the metadata of DCP, which DCP writes
// as the first member.
bool HasInfo(const std::string& path) {
  constexpr size_t kHead = 4096;
  Findings none;
  const auto file = InputFile::Open(path, none);
  const auto head = file ? file->Head(kHead, none) : std::nullopt;
  return head && head->size() > AsIndex(kLengthBytes) &&
         HeaderLength(*head) <= kMaxHeaderBytes &&
         head->find(kInfo) != std::string::npos;
}

bool DetectShards(const Folder& folder) {
  for (const std::string& name : folder.names) {
    if (!name.ends_with(kEnding)) continue;
    return HasInfo(folder.PathOf(name));
  }
  return false;
}

struct ShardPiece {
  size_t file = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
};

class ShardReader : public ChunkReader {
 public:
  std::optional<std::string> Read(size_t array, int64_t chunk,
                                  Findings& findings) const override {
    const ShardPiece& piece = pieces[array][AsIndex(chunk)];
    const auto file = InputFile::Open(files[piece.file], findings);
    if (!file) return std::nullopt;
    std::string out(AsIndex(piece.bytes), '\0');
    if (!file->ReadAt(piece.offset, out.data(), out.size(), findings)) {
      return std::nullopt;
    }
    return out;
  }

  std::optional<ChunkPlace> Find(size_t array, int64_t chunk,
                                 Findings& /*findings*/) const override {
    const ShardPiece& piece = pieces[array][AsIndex(chunk)];
    return ChunkPlace{files[piece.file], piece.offset, piece.bytes, true};
  }

  std::vector<std::string> files;
  std::vector<std::vector<ShardPiece>> pieces;  // indexed by array and by chunk
};

std::optional<Shape> ReadShape(const std::optional<JsonValue>& value) {
  if (!value || !value->IsArray()) return std::nullopt;
  Shape out;
  for (const JsonValue item : value->items()) {
    if (item.kind() != JsonKind::kInteger || item.integer() < 0) {
      return std::nullopt;
    }
    out.push_back(item.integer());
  }
  return out;
}

class ShardOpener {
 public:
  ShardOpener(const Folder& folder, Findings& findings)
      : folder_(folder), findings_(findings) {}

  std::optional<Tree> Open() {
    for (const std::string& name : folder_.names) {
      if (!name.ends_with(kEnding)) continue;
      reader_->files.push_back(folder_.PathOf(name));
      if (!ReadFile(reader_->files.back()) || findings_.Full()) break;
    }
    if (findings_.HasErrors()) return std::nullopt;
    for (size_t i = 0; i < tree_.arrays.size(); ++i) Finish(i);
    RefuseMissingShards(folder_, findings_);
    for (const std::string& name : folder_.names) {
      if (name.ends_with(kIndexEnding)) CheckIndex(folder_.PathOf(name));
    }
    if (findings_.HasErrors()) return std::nullopt;
    if (HasFirstRankAlone(folder_)) {
      tree_.notes.emplace_back(
          "only files of rank 1 are present: they are complete only if one "
          "process saved the checkpoint");
    }
    tree_.path = folder_.path;
    tree_.form = kShardsName;
    tree_.reader = std::move(reader_);
    return std::move(tree_);
  }

 private:
  bool Refuse(const Code& code, Place place, std::string message,
              std::string help) {
    findings_.Add(code, std::move(place), std::move(message), std::move(help));
    return false;
  }

  bool ReadFile(const std::string& path) {
    const auto file = InputFile::Open(path, findings_);
    if (!file) return false;
    auto head = file->Head(AsIndex(kLengthBytes), findings_);
    if (!head) return false;
    const uint64_t length =
        head->size() < AsIndex(kLengthBytes) ? 0 : HeaderLength(*head);
    if (length < 2 || length > kMaxHeaderBytes ||
        static_cast<int64_t>(length) > file->size() - kLengthBytes) {
      return Refuse(
          code::kHeader, {MakeSource(path, {})},
          head->starts_with("PK")
              ? "the file begins with a pickled value, so it is no "
                "safetensors file"
              : "the header's length of " + std::to_string(length) +
                    " bytes exceeds the file",
          "save without values that are not tensors, which DCP's writer of "
          "safetensors puts before the header");
    }
    std::string text(length, '\0');
    if (!file->ReadAt(kLengthBytes, text.data(), text.size(), findings_)) {
      return false;
    }
    const auto header =
        JsonDocument::Parse(MakeSource(path, std::move(text)), findings_);
    return header != nullptr &&
           ReadHeader(header->root(), *file,
                      kLengthBytes + static_cast<int64_t>(length));
  }

  bool ReadHeader(const JsonValue& header, const InputFile& file,
                  int64_t data) {
    const auto metadata =
        header.IsObject() ? header.Find("__metadata__") : std::nullopt;
    const auto info =
        metadata && metadata->IsObject() ? metadata->Find(kInfo) : std::nullopt;
    if (!info || !info->IsString()) {
      return Refuse(code::kHeader, {MakeSource(file.path(), {})},
                    "the file lacks `DCP_SHARDING_INFO`, which others of the "
                    "folder have",
                    "move files of another checkpoint to a folder of their "
                    "own");
    }
    const auto offsets =
        JsonDocument::Parse(MakeSource(file.path() + " (DCP_SHARDING_INFO)",
                                       std::string(info->string())),
                            findings_);
    if (offsets == nullptr) return false;
    if (!offsets->root().IsObject()) {
      return Refuse(code::kSchema, offsets->root().place(),
                    "`DCP_SHARDING_INFO` is no object",
                    "save the checkpoint again");
    }
    std::unordered_map<std::string_view, JsonValue> begins;
    for (const JsonMember member : offsets->root().members()) {
      begins.emplace(member.name(), member.value);
    }
    end_ = 0;
    for (const JsonMember member : header.members()) {
      if (member.name() == "__metadata__") continue;
      const auto begin = begins.find(member.name());
      const auto offset = begin == begins.end() || !begin->second.IsObject()
                              ? std::nullopt
                              : ReadShape(begin->second.Find("saved_offsets"));
      if (!ReadTensor(member, offset, file, data)) return false;
    }
    if (end_ == file.size() - data) return true;
    return Refuse(code::kOffsets, {MakeSource(file.path(), {})},
                  "the file has " + CountText(file.size() - data) +
                      " bytes of data, and its tensors end at byte " +
                      CountText(end_),
                  "copy the file again");
  }

  bool ReadTensor(const JsonMember& member, const std::optional<Shape>& offset,
                  const InputFile& file, int64_t data) {
    const Place place{MakeSource(file.path(), {})};
    const std::string name(member.name());
    const bool is_object = member.value.IsObject();
    const auto dtype = is_object ? member.value.Find("dtype") : std::nullopt;
    const auto shape =
        is_object ? ReadShape(member.value.Find("shape")) : std::nullopt;
    const auto range =
        is_object ? ReadShape(member.value.Find("data_offsets")) : std::nullopt;
    const auto type =
        dtype && dtype->IsString() ? ParseDtype(dtype->string()) : std::nullopt;
    if (!type || !shape || !range || range->size() != 2 || !offset ||
        offset->size() != shape->size()) {
      return Refuse(code::kSchema, place,
                    "the entry of " + ShortQuote(name) +
                        " lacks a data type, a shape, offsets of its bytes, "
                        "or `saved_offsets` of the same rank",
                    "save the checkpoint again");
    }
    const auto elements = CheckedProduct(*shape);
    const auto bytes = elements ? BytesOf(*elements, *type) : std::nullopt;
    const int64_t begin = (*range)[0];
    const int64_t end = (*range)[1];
    if (!bytes || end < begin || end - begin != *bytes ||
        end > file.size() - data) {
      return Refuse(code::kOffsets, place,
                    "tensor " + ShortQuote(name) + " of shape " +
                        ShapeText(*shape) + " is at bytes " +
                        std::to_string(begin) + " to " + std::to_string(end) +
                        " of " + CountText(file.size() - data),
                    "copy the file again");
    }
    end_ = std::max(end_, end);
    if (DtypeBits(*type) % 8 != 0) {
      return Refuse(code::kInexpressible, place,
                    "tensor " + ShortQuote(name) + " has the packed type " +
                        std::string(DtypeName(*type)) +
                        ", which DCP does not divide",
                    "merge the shards with torch");
    }
    return AddPiece(name, *type, {*offset, *shape},
                    {reader_->files.size() - 1, data + begin, *bytes}, place);
  }

  bool AddPiece(const std::string& name, Dtype dtype, Box box,
                const ShardPiece& piece, const Place& place) {
    const auto [known, is_new] = ids_.try_emplace(name, tree_.arrays.size());
    if (is_new) {
      Array& array = tree_.arrays.emplace_back();
      array.name = name;
      array.key = name;
      array.path = {name};
      array.dtype = dtype;
      array.element_bytes = DtypeBits(dtype) / 8;
      array.shape = Shape(box.shape.size(), 0);
      reader_->pieces.emplace_back();
    }
    Array& array = tree_.arrays[known->second];
    if (array.shape.size() != box.shape.size() || array.dtype != dtype) {
      return Refuse(code::kSize, place,
                    "tensor " + ShortQuote(name) +
                        " has another rank or data type in a file before it",
                    "move files of another checkpoint to a folder of their "
                    "own");
    }
    for (size_t i = 0; i < box.shape.size(); ++i) {
      const auto end = CheckedAdd(box.offset[i], box.shape[i]);
      if (!end) {
        return Refuse(code::kOverflow, place,
                      "the end of tensor " + ShortQuote(name) +
                          " does not fit in 64 bits",
                      "save the checkpoint again");
      }
      array.shape[i] = std::max(array.shape[i], *end);
    }
    if (box.Elements() == 0) return true;
    array.pieces.push_back(std::move(box));
    reader_->pieces[known->second].push_back(piece);
    return true;
  }

  // Reports each tensor that the index at `path` lists but no file contains.
  void CheckIndex(const std::string& path) {
    const SourceRef source = ReadSource(path, findings_);
    if (!source) return;
    const auto index = JsonDocument::Parse(source, findings_);
    if (index == nullptr) return;
    const auto map = index->root().IsObject() ? index->root().Find("weight_map")
                                              : std::nullopt;
    if (!map || !map->IsObject()) {
      Refuse(code::kSchema, index->root().place(),
             "the index has no object `weight_map`",
             "save the checkpoint again");
      return;
    }
    for (const JsonMember member : map->members()) {
      if (ids_.contains(std::string(member.name())) || findings_.Full()) {
        continue;
      }
      const std::string file = member.value.IsString()
                                   ? std::string(member.value.string())
                                   : std::string();
      Refuse(code::kMissing, member.value.place(),
             "the index lists tensor " + ShortQuote(member.name()) +
                 (file.empty() ? "" : " in " + ShortQuote(file)) +
                 ", and no file of the folder holds a piece of it",
             "copy the files of all ranks to this folder");
    }
  }

  // Checks the pieces of a tensor after all files have been read.
  void Finish(size_t i) {
    Array& array = tree_.arrays[i];
    const auto elements = CheckedProduct(array.shape);
    std::optional<std::string> why = "its size does not fit in 64 bits";
    if (elements && CheckedMul(*elements, array.element_bytes)) {
      why = WhyNotCovered(array.shape, array.pieces);
    }
    for (const int64_t size : array.shape) {
      array.chunk.push_back(std::max<int64_t>(size, 1));
    }
    if (!why) return;
    Refuse(code::kOffsets, {MakeSource(folder_.path, {})},
           "tensor " + ShortQuote(array.name) + " of shape " +
               ShapeText(array.shape) + " is not complete: " + *why,
           "save with `save_distributed=True`, and keep the files of all "
           "ranks");
  }

  const Folder& folder_;
  Findings& findings_;
  Tree tree_;
  std::shared_ptr<ShardReader> reader_ = std::make_shared<ShardReader>();
  std::unordered_map<std::string, size_t> ids_;
  // Where the last tensor of the current file ends, in bytes after the header.
  int64_t end_ = 0;
};

std::optional<Tree> OpenShards(const Folder& folder, Findings& findings) {
  return ShardOpener(folder, findings).Open();
}

}  // namespace

extern const Format kDcpSafetensors;
const Format kDcpSafetensors{kShardsName, DetectShards, OpenShards};

}  // namespace shardc::stored
