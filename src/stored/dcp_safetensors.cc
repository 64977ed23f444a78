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
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "source/json.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/box.h"
#include "stored/tree.h"
#include "stored/write.h"

namespace shardc::stored {
namespace {

// Detects missing files of DCP's safetensors writer from the names of the other
// files. A model is saved as COUNT numbered files. A rank that holds a part of
// file NUMBER writes this part to
// `shard-RANK-model-NUMBER-of-COUNT.safetensors`. Ranks are counted from 1. At
// least one rank holds a part of each numbered file. Only the last ranks may
// have nothing to save. So these files are missing:
//
//   shard-00001-model-00001-of-00001, shard-00003-model-00001-of-00001
//     ->  the file of rank 2 is missing
//   shard-00001-model-00001-of-00002, shard-00002-model-00001-of-00002
//     ->  no rank has a part of `model-00002-of-00002`

// The parts of a file name. For example,
// "shard-00002-model-00001-of-00003.safetensors" has rank 2, prefix "model-",
// number 1 and count 3.
struct ShardName {
  // Counted from 1; nullopt: the name states no rank.
  std::optional<int64_t> rank;
  // The part between the rank and the number, a view of the parsed file name.
  std::string_view prefix;
  int64_t number = 0;
  int64_t count = 0;
};

constexpr std::string_view kShardEnding = ".safetensors";
constexpr std::string_view kCountMark = "-of-";
constexpr std::string_view kShard = "shard-";
constexpr size_t kMostDigits = 9;
constexpr int64_t kMostShown = 8;

// Returns the number that the digits represent. Returns nullopt for any other
// text, and for more than kMostDigits digits.
std::optional<int64_t> Number(std::string_view digits) {
  int64_t out = 0;
  const char* end = digits.data() + digits.size();
  if (digits.empty() || digits.size() > kMostDigits || digits[0] == '-') {
    return std::nullopt;
  }
  const auto [rest, error] = std::from_chars(digits.data(), end, out);
  if (error != std::errc() || rest != end) return std::nullopt;
  return out;
}

// The numbers from 1 to `last` that are not in `present`. `count` is how many
// there are, and `first` has the first few of them.
struct Absent {
  int64_t count = 0;
  std::vector<int64_t> first;
};
Absent AbsentOf(const std::set<int64_t>& present, int64_t last) {
  Absent out;
  out.count = last - static_cast<int64_t>(present.size());
  for (int64_t i = 1; i <= last; ++i) {
    if (static_cast<int64_t>(out.first.size()) == kMostShown) break;
    if (!present.contains(i)) out.first.push_back(i);
  }
  return out;
}

// Returns a text such as "`shard-00002-model-*` and 3 more are missing".
std::string ListOf(const Absent& absent, const std::string& before,
                   const std::string& after) {
  std::string out;
  for (const int64_t number : absent.first) {
    out +=
        (out.empty() ? "`" : ", `") + before + FiveDigits(number) + after + "`";
  }
  const int64_t more = absent.count - static_cast<int64_t>(absent.first.size());
  if (more > 0) out += " and " + CountText(more) + " more";
  return out + (absent.count == 1 ? " is missing" : " are missing");
}

// The ranks, numbers and counts in the names of files with the same prefix.
struct Series {
  std::set<int64_t> ranks;
  std::set<int64_t> numbers;
  std::set<int64_t> counts;
  bool has_rank = false;
  bool outside = false;  // a number or a rank is out of range
};

bool Refuse(const Folder& folder, std::string message, std::string help,
            Findings& findings) {
  findings.Add(code::kMissing, {MakeSource(folder.path, {})},
               std::move(message), std::move(help));
  return true;
}

bool RefuseSeries(const Folder& folder, const std::string& prefix,
                  const Series& series, Findings& findings) {
  const int64_t count = *series.counts.begin();
  if (series.counts.size() > 1 || series.outside) {
    return Refuse(
        folder,
        series.outside
            ? "a file `" + prefix + "*` has a number outside its count"
            : "some files `" + prefix + "*` are of " + std::to_string(count) +
                  " and others of " + std::to_string(*series.counts.rbegin()),
        "move the files of another save to a folder of their own", findings);
  }
  bool refused = false;
  const int64_t ranks = series.has_rank ? *series.ranks.rbegin() : 0;
  if (static_cast<int64_t>(series.ranks.size()) < ranks) {
    refused =
        Refuse(folder,
               "files of rank " + std::to_string(ranks) +
                   " are present, and those of a rank before it are not: " +
                   ListOf(AbsentOf(series.ranks, ranks), std::string(kShard),
                          "-" + prefix + "*"),
               "copy the files of all ranks to this folder", findings);
  }
  if (static_cast<int64_t>(series.numbers.size()) < count) {
    refused = Refuse(
        folder,
        "the model has " + CountText(count) + " files, and no rank's part of " +
            std::to_string(count -
                           static_cast<int64_t>(series.numbers.size())) +
            " of them is present: " +
            ListOf(AbsentOf(series.numbers, count), prefix,
                   std::string(kCountMark) + FiveDigits(count) +
                       std::string(kShardEnding)),
        "copy the files of all ranks to this folder", findings);
  }
  return refused;
}

// Parses a file name. Returns nullopt for names that do not end in
// "-NUMBER-of-COUNT.safetensors".
std::optional<ShardName> ParseShardName(std::string_view name) {
  if (!name.ends_with(kShardEnding)) return std::nullopt;
  name.remove_suffix(kShardEnding.size());
  ShardName out;
  if (name.starts_with(kShard)) {
    const std::string_view rest = name.substr(kShard.size());
    const size_t dash = rest.find('-');
    const auto rank = Number(rest.substr(0, dash));
    if (rank && dash != std::string_view::npos) {
      out.rank = rank;
      name = rest.substr(dash + 1);
    }
  }
  const size_t of = name.rfind(kCountMark);
  if (of == std::string_view::npos) return std::nullopt;
  const auto count = Number(name.substr(of + kCountMark.size()));
  const size_t dash = name.substr(0, of).rfind('-');
  const size_t begin = dash == std::string_view::npos ? 0 : dash + 1;
  const auto number = Number(name.substr(begin, of - begin));
  if (!count || !number) return std::nullopt;
  out.prefix = name.substr(0, begin);
  out.number = *number;
  out.count = *count;
  return out;
}

// Adds the finding `missing` and returns true if the names in the folder show
// one of these faults: a rank's file is absent, a numbered file is absent for
// all ranks, or the files are of two saves. Names cannot show that the files of
// the highest ranks are absent.
bool RefuseMissingShards(const Folder& folder, Findings& findings) {
  std::map<std::string, Series> all;
  for (const std::string& name : folder.names) {
    const auto parsed = ParseShardName(name);
    if (!parsed) continue;
    Series& series = all[std::string(parsed->prefix)];
    series.counts.insert(parsed->count);
    series.numbers.insert(parsed->number);
    series.outside = series.outside || parsed->number < 1 ||
                     parsed->number > parsed->count ||
                     (parsed->rank && *parsed->rank < 1);
    if (parsed->rank) {
      series.has_rank = true;
      series.ranks.insert(*parsed->rank);
    }
  }
  bool refused = false;
  for (const auto& [prefix, series] : all) {
    if (RefuseSeries(folder, prefix, series, findings)) refused = true;
  }
  return refused;
}

// Returns whether the folder has safetensors files and all their names state
// rank 1. Such files are the complete checkpoint only if a single process saved
// it.
bool HasFirstRankAlone(const Folder& folder) {
  bool first = false;
  for (const std::string& name : folder.names) {
    if (!name.ends_with(kShardEnding)) continue;
    const auto parsed = ParseShardName(name);
    if (!parsed || parsed->rank != 1) return false;
    first = true;
  }
  return first;
}

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
                 ", and no file of the folder holds a shard of it",
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
