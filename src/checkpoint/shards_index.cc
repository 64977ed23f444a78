// Writes and reads `shards.json`, the index of a split checkpoint, which has a
// line for each piece. The file may have been edited, so the reader checks the
// values that it uses. For example, a piece must be inside its parameter, and a
// file inside the directory.
//
//   "w[2:4,0:4]": {"param": "w", "dtype": "F32", "global_shape": [8, 4],
//                  "offset": [2, 0], "shape": [2, 4], ...}
//
// If the axes divide each of several parts of a dimension, the positions of a
// piece have two dimensions for it (model/legal_sizes.h). Its tensor in the
// file has the dimensions of the parameter:
//
//   w [8, 4] in parts [2], rows 2, 3, 6 and 7  ->  a tensor [4, 4],
//     "global_shape": [2, 4, 4], "offset": [0, 2, 0], "shape": [2, 2, 4]
//
// If the parts have stated sizes, the dimension stays one, and its position
// states which share of each part the piece has:
//
//   w [8, 4] in parts [[4, 2, 2]], rows 2, 3, 5 and 7  ->  a tensor [4, 4],
//     "global_shape": [8, 4], "offset": [4, 0], "shape": [4, 4]
#include "checkpoint/shards_index.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model/name.h"
#include "plan/placement.h"
#include "source/json.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/checksum.h"

namespace shardc {
namespace {

constexpr std::string_view kSchemaName = "shardc.shards/v1";

void WriteParam(JsonWriter& json, const IndexedParam& param) {
  json.Key(param.name);
  json.BeginObject();
  json.Members("shape", param.shape, "dtype", DtypeName(param.dtype), "spec",
               WrittenBy(WriteSpec, param.spec));
  if (!param.dim_parts.empty()) {
    json.Member("parts", WrittenBy(WriteDimParts, param.dim_parts));
  }
  if (param.placement) {
    WritePlacement(json, param.placement->axis, param.placement->coordinate);
  }
  if (param.ranks) {
    json.Member("ranks",
                Record("axis", param.ranks->axis, "of", param.ranks->of));
  }
  json.EndObject();
}

void WritePiece(JsonWriter& json, const IndexedPiece& piece,
                const IndexedParam& param) {
  json.Key(piece.key);
  json.BeginObject();
  if (piece.key != param.name) json.Member("param", param.name);
  json.Members("dtype", DtypeName(param.dtype), "global_shape",
               SplitShape(param.shape, EqualAmong(param.dim_parts)), "offset",
               piece.box.offset, "shape", piece.box.shape, "devices",
               Given(piece.devices));
  if (piece.checksum) json.Member("checksum", ChecksumText(*piece.checksum));
  json.EndObject();
}

class IndexReader {
 public:
  explicit IndexReader(Findings& findings) : findings_(findings) {}

  std::optional<ShardsIndex> Read(const JsonValue& root) {
    const size_t before = findings_.errors();
    if (RefuseUnfinishedIndex(root, findings_)) return std::nullopt;
    const auto schema = root.Find("schema");
    if (!schema || schema->string() != kSchemaName) {
      Refuse(code::kSchema, schema ? *schema : root,
             "this is not an index of shards: its `schema` is not `" +
                 std::string(kSchemaName) + "`");
      return std::nullopt;
    }
    if (!ReadHead(root)) return std::nullopt;
    const auto params = Member(root, "params", JsonKind::kObject);
    const auto files = Member(root, "files", JsonKind::kArray);
    if (!params || !files) return std::nullopt;
    for (const JsonMember param : params->members()) {
      if (!ReadParamOf(param)) return std::nullopt;
    }
    for (const JsonValue file : files->items()) {
      if (!ReadFile(file)) return std::nullopt;
    }
    if (findings_.errors() > before) return std::nullopt;
    return std::move(index_);
  }

 private:
  bool Refuse(const Code& code, const JsonValue& at, std::string message) {
    findings_.Add(code, at.place(), std::move(message));
    return false;
  }

  std::optional<JsonValue> Member(const JsonValue& object, std::string_view key,
                                  JsonKind kind) {
    return RequiredMember(object, key, kind, findings_);
  }

  bool ReadHead(const JsonValue& root) {
    if (const auto text = root.Find("fingerprint")) {
      index_.fingerprint = text->string();
    }
    const auto mode = Member(root, "mode", JsonKind::kString);
    const auto per = Member(root, "per", JsonKind::kString);
    const auto mesh = Member(root, "mesh", JsonKind::kObject);
    if (!mode || !per || !mesh) return false;
    const auto parsed_mode = ParseMode(mode->string());
    if (!parsed_mode) return Refuse(code::kSchema, *mode, "this is not a mode");
    const auto parsed_per = ParsePer(per->string());
    if (!parsed_per) {
      return Refuse(code::kSchema, *per, "`per` is device, process or shard");
    }
    auto parsed_mesh = ParsePlanMesh(*mesh, findings_);
    if (!parsed_mesh) return false;
    index_.mode = *parsed_mode;
    index_.per = *parsed_per;
    index_.mesh = std::move(*parsed_mesh);
    const auto metadata = root.Find("metadata");
    if (metadata) {
      for (const JsonMember text : metadata->members()) {
        index_.metadata.emplace_back(text.name(), text.value.string());
      }
    }
    return true;
  }

  bool ReadNumbers(const JsonValue& object, std::string_view key, Shape* out) {
    const auto list = Member(object, key, JsonKind::kArray);
    if (!list) return false;
    for (const JsonValue item : list->items()) {
      if (item.kind() != JsonKind::kInteger || item.integer() < 0) {
        return Refuse(code::kNumber, item,
                      "this is not an integer from 0 to 2^63 - 1");
      }
      out->push_back(item.integer());
    }
    return true;
  }

  bool ReadParamOf(const JsonMember& member) {
    IndexedParam param;
    param.name = member.name();
    const auto dtype = Member(member.value, "dtype", JsonKind::kString);
    if (!dtype || !ReadNumbers(member.value, "shape", &param.shape)) {
      return false;
    }
    const auto parsed = ParseDtype(dtype->string());
    if (!parsed) {
      return Refuse(code::kDtype, *dtype, "this dtype is unknown");
    }
    param.dtype = *parsed;
    const auto elements = CheckedProduct(param.shape);
    if (!elements || !CheckedMul(*elements, DtypeBits(param.dtype))) {
      return Refuse(code::kOverflow, member.key,
                    "the size does not fit in 64 bits");
    }
    if (const auto parts = member.value.Find("parts")) {
      const auto read = ParseDimParts(*parts, findings_);
      if (!read) return false;
      if (!PartsDivide(*read, param.shape)) {
        return Refuse(code::kSchema, *parts,
                      "the parts do not divide " + ShapeText(param.shape));
      }
      param.dim_parts = *read;
    }
    ids_[param.name] = static_cast<uint32_t>(index_.params.size());
    index_.params.push_back(std::move(param));
    return true;
  }

  bool ReadFile(const JsonValue& value) {
    IndexedFile file;
    const auto name = Member(value, "file", JsonKind::kString);
    const auto params = Member(value, "params", JsonKind::kObject);
    if (!name || !params) return false;
    file.name = name->string();
    if (file.name.find_first_of("/\\") != std::string::npos ||
        file.name.find('\0') != std::string::npos ||
        !file.name.ends_with(".safetensors")) {
      return Refuse(code::kPath, *name,
                    "`" + file.name +
                        "` is not a safetensors file of the"
                        " index's own directory");
    }
    const auto bytes = Member(value, "bytes", JsonKind::kInteger);
    if (!bytes || !ReadNumbers(value, "devices", &file.devices)) return false;
    file.bytes = bytes->integer();
    for (const JsonMember piece : params->members()) {
      if (!ReadPiece(piece, file)) return false;
    }
    index_.files.push_back(std::move(file));
    return true;
  }

  bool ReadPiece(const JsonMember& member, IndexedFile& file) {
    IndexedPiece piece;
    piece.key = member.name();
    const auto param = member.value.Find("param");
    const std::string name(param ? param->string() : member.name());
    const auto id = ids_.find(name);
    if (id == ids_.end()) {
      return Refuse(code::kReference, member.key,
                    "`" + name + "` is not among the index's parameters");
    }
    piece.param = id->second;
    if (!ReadNumbers(member.value, "offset", &piece.box.offset) ||
        !ReadNumbers(member.value, "shape", &piece.box.shape)) {
      return false;
    }
    const IndexedParam& of = index_.params[piece.param];
    const Shape whole = SplitShape(of.shape, EqualAmong(of.dim_parts));
    bool inside = piece.box.offset.size() == whole.size() &&
                  piece.box.shape.size() == whole.size();
    for (size_t i = 0; inside && i < whole.size(); ++i) {
      inside = piece.box.shape[i] <= whole[i] &&
               piece.box.offset[i] <= whole[i] - piece.box.shape[i];
    }
    if (!inside) {
      return Refuse(
          code::kSchema, member.value,
          "the shard is outside its parameter of shape " + ShapeText(whole));
    }
    for (const auto& [dim, sizes] : SizedPartsOf(of.dim_parts)) {
      if (RangesOfShare(sizes, piece.box.offset[dim], piece.box.shape[dim])) {
        continue;
      }
      return Refuse(code::kSchema, member.value,
                    "the shard does not have the same share of each part of " +
                        DimPartsText(of.dim_parts));
    }
    if (member.value.Find("devices") &&
        !ReadNumbers(member.value, "devices", &piece.devices)) {
      return false;
    }
    if (const auto text = member.value.Find("checksum")) {
      piece.checksum = ParseChecksum(text->string());
      if (!piece.checksum) {
        return Refuse(code::kSchema, *text, "this is not a checksum");
      }
    }
    file.pieces.push_back(std::move(piece));
    return true;
  }

  Findings& findings_;
  ShardsIndex index_;
  std::unordered_map<std::string, uint32_t> ids_;
};

}  // namespace

std::string_view PerName(Per per) {
  switch (per) {
    case Per::kDevice:
      return "device";
    case Per::kProcess:
      return "process";
    case Per::kShard:
      return "shard";
  }
  return "device";
}

std::optional<Per> ParsePer(std::string_view text) {
  for (const Per per : {Per::kDevice, Per::kProcess, Per::kShard}) {
    if (PerName(per) == text) return per;
  }
  return std::nullopt;
}

void WriteShardsIndex(const ShardsIndex& index, Sink& out) {
  WriteDocument(out, kSchemaName, [&](JsonWriter& json) {
    json.Members("fingerprint", index.fingerprint, "mode", ModeName(index.mode),
                 "per", PerName(index.per), "mesh",
                 WrittenBy(WriteMesh, index.mesh, MeshDetail::kSizes));
    json.Key("metadata");
    json.BeginObject();
    for (const auto& [key, value] : index.metadata) json.Member(key, value);
    json.EndObject();
    json.Key("params");
    json.BeginObject(JsonLayout::kLines);
    for (const IndexedParam& param : index.params) WriteParam(json, param);
    json.EndObject();
    json.Rows("files", index.files, [&](const IndexedFile& file) {
      json.Members("file", file.name, "bytes", file.bytes, "devices",
                   file.devices);
      json.Key("params");
      json.BeginObject(JsonLayout::kLines);
      for (const IndexedPiece& piece : file.pieces) {
        WritePiece(json, piece, index.params[piece.param]);
      }
      json.EndObject();
    });
  });
}

std::optional<ShardsIndex> ParseShardsIndex(const JsonDocument& document,
                                            Findings& findings) {
  return IndexReader(findings).Read(document.root());
}

namespace {

// Writes and reads the record of a tree in the metadata of safetensors files.
// With this record, a tree that was converted to safetensors files can be
// restored. A tensor named `a/b` has the path [`a`, `b`] unless the record
// contains another path. The record also contains the paths of lists, and the
// values that are not tensors:
//
//   tensor opt_state/0/mu/w; `opt_state` is a list whose second node is empty
//     ->  {"version": 1, "lists": [["opt_state"]],
//          "empty": [{"path": ["opt_state", "1"], "type": "None"}]}

using Keys = std::vector<std::string>;

constexpr int64_t kVersion = 1;

// Returns the parts of a name between `/`.
Keys KeysOf(std::string_view name) {
  const auto parts = SplitName(name, '/');
  return {parts.begin(), parts.end()};
}

bool IsNumber(std::string_view key) {
  return !key.empty() &&
         key.find_first_not_of("0123456789") == std::string_view::npos;
}

void AddLists(const Keys& keys, const std::vector<bool>& in_sequence,
              std::set<Keys>& lists) {
  for (size_t i = 0; i < std::min(keys.size(), in_sequence.size()); ++i) {
    if (!in_sequence[i]) continue;
    lists.emplace(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Returns for each key of a path whether it is an index of a list. `lists` has
// the paths of all lists.
std::vector<bool> InSequence(const Keys& keys, const std::set<Keys>& lists) {
  std::vector<bool> out;
  Keys node;
  for (const std::string& key : keys) {
    out.push_back(IsNumber(key) && lists.contains(node));
    node.push_back(key);
  }
  return out;
}

class RecordReader {
 public:
  RecordReader(Stored& stored, Findings& findings)
      : stored_(stored), findings_(findings) {}

  bool Read(const std::string& text) {
    const auto document = JsonDocument::Parse(
        MakeSource(stored_.path + " (" + std::string(kTreeRecordKey) + ")",
                   text),
        findings_);
    if (document == nullptr) return false;
    const JsonValue root = document->root();
    const auto version = root.IsObject() ? root.Find("version") : std::nullopt;
    if (!version || version->kind() != JsonKind::kInteger ||
        version->integer() != kVersion) {
      return Refuse(root, "states no version 1");
    }
    return ReadLists(root) && ReadTensors(root) && ReadLeaves(root);
  }

 private:
  bool Refuse(const JsonValue& value, const std::string& what) {
    findings_.Add(code::kSchema, value.place(),
                  "the record of the tree " + what,
                  "write the files again, or remove `" +
                      std::string(kTreeRecordKey) + "` from their metadata");
    return false;
  }

  std::optional<Keys> ReadKeys(const JsonValue& value) {
    Keys out;
    bool valid = value.IsArray();
    if (valid) {
      for (const JsonValue& key : value.items()) {
        if (!key.IsString()) {
          valid = false;
          break;
        }
        out.emplace_back(key.string());
      }
    }
    if (valid) return out;
    Refuse(value, "has a path that is no list of texts");
    return std::nullopt;
  }

  // Calls `visit` for the elements of the member `name`, which may be absent.
  // Returns false if the member is not a list or if `visit` returns false.
  template <class Visit>
  bool ForEach(const JsonValue& root, std::string_view name,
               const Visit& visit) {
    const auto list = root.Find(name);
    if (!list) return true;
    if (!list->IsArray()) {
      return Refuse(*list, "has `" + std::string(name) + "` that is no list");
    }
    for (const JsonValue& item : list->items()) {
      if (!visit(item)) return false;
    }
    return true;
  }

  bool ReadLists(const JsonValue& root) {
    return ForEach(root, "lists", [&](const JsonValue& item) {
      auto keys = ReadKeys(item);
      if (!keys) return false;
      lists_.insert(std::move(*keys));
      return true;
    });
  }

  // Returns the text of an object's member. Returns nullopt after a finding if
  // the member is missing or is not a text.
  std::optional<std::string> TextOf(const JsonValue& object,
                                    std::string_view name) {
    const auto member = object.IsObject() ? object.Find(name) : std::nullopt;
    if (member && member->IsString()) return std::string(member->string());
    Refuse(object, "has an entry without the text `" + std::string(name) + "`");
    return std::nullopt;
  }
  std::optional<Keys> PathOf(const JsonValue& object) {
    const auto member = object.IsObject() ? object.Find("path") : std::nullopt;
    if (member) return ReadKeys(*member);
    Refuse(object, "has an entry without a `path`");
    return std::nullopt;
  }

  bool ReadTensors(const JsonValue& root) {
    std::unordered_map<std::string, Keys> paths;
    std::unordered_map<std::string, std::string> random_keys;
    const bool read =
        ForEach(root, "paths",
                [&](const JsonValue& item) {
                  auto name = TextOf(item, "name");
                  auto keys = name ? PathOf(item) : std::nullopt;
                  if (!keys) return false;
                  if (keys->empty()) return Refuse(item, "has an empty path");
                  paths.emplace(std::move(*name), std::move(*keys));
                  return true;
                }) &&
        ForEach(root, "random_keys", [&](const JsonValue& item) {
          auto name = TextOf(item, "name");
          auto type = name ? TextOf(item, "type") : std::nullopt;
          if (!type) return false;
          random_keys.emplace(std::move(*name), std::move(*type));
          return true;
        });
    if (!read) return false;
    for (StoredTensor& tensor : stored_.tensors) {
      const auto path = paths.find(tensor.name);
      tensor.in_tree.keys =
          path == paths.end() ? KeysOf(tensor.name) : path->second;
      tensor.in_tree.in_sequence = InSequence(tensor.in_tree.keys, lists_);
      const auto random_key = random_keys.find(tensor.name);
      if (random_key != random_keys.end()) {
        tensor.in_tree.random_key = random_key->second;
      }
    }
    return true;
  }

  bool AddLeaf(const JsonValue& item, stored::Leaf::Kind kind,
               std::string_view member) {
    auto keys = PathOf(item);
    auto text = keys ? TextOf(item, member) : std::nullopt;
    if (!text) return false;
    if (keys->empty()) return Refuse(item, "has an empty path");
    stored::Leaf leaf;
    leaf.name = stored::JoinKeys(*keys, '/');
    leaf.kind = kind;
    leaf.text = std::move(*text);
    leaf.in_sequence = InSequence(*keys, lists_);
    leaf.path = std::move(*keys);
    stored_.leaves.push_back(std::move(leaf));
    return true;
  }

  bool ReadLeaves(const JsonValue& root) {
    return ForEach(root, "empty",
                   [&](const JsonValue& item) {
                     return AddLeaf(item, stored::Leaf::Kind::kEmpty, "type");
                   }) &&
           ForEach(root, "strings", [&](const JsonValue& item) {
             return AddLeaf(item, stored::Leaf::Kind::kString, "text");
           });
  }

  Stored& stored_;
  Findings& findings_;
  std::set<Keys> lists_;
};

// Writes a member that is a list; `write` writes its elements. Writes nothing
// if the list is empty (`any` is false).
template <class Write>
void WriteList(JsonWriter& json, std::string_view name, bool any,
               const Write& write) {
  if (!any) return;
  json.Key(name);
  json.BeginArray();
  write();
  json.EndArray();
}

void WriteLeaves(JsonWriter& json, std::string_view name,
                 std::string_view member,
                 const std::vector<stored::Leaf>& leaves,
                 stored::Leaf::Kind kind) {
  const auto is_one = [&](const stored::Leaf& leaf) {
    return leaf.kind == kind && !leaf.path.empty();
  };
  WriteList(json, name, std::any_of(leaves.begin(), leaves.end(), is_one), [&] {
    for (const stored::Leaf& leaf : leaves) {
      if (!is_one(leaf)) continue;
      json.Object("path", leaf.path, member, leaf.text);
    }
  });
}

}  // namespace

std::string TreeRecordText(const std::vector<StoredTensor>& tensors,
                           const std::vector<stored::Leaf>& leaves) {
  std::set<Keys> lists;
  std::vector<const StoredTensor*> renamed;
  std::vector<const StoredTensor*> random_keys;
  for (const StoredTensor& tensor : tensors) {
    const TreePlace& place = tensor.in_tree;
    AddLists(place.keys, place.in_sequence, lists);
    if (!place.random_key.empty()) random_keys.push_back(&tensor);
    if (!place.keys.empty() && place.keys != KeysOf(tensor.name)) {
      renamed.push_back(&tensor);
    }
  }
  for (const stored::Leaf& leaf : leaves) {
    AddLists(leaf.path, leaf.in_sequence, lists);
  }
  if (lists.empty() && renamed.empty() && random_keys.empty() &&
      leaves.empty()) {
    return {};
  }
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("version", kVersion);
    WriteList(json, "lists", !lists.empty(), [&] {
      for (const Keys& keys : lists) json.Array(keys);
    });
    WriteList(json, "paths", !renamed.empty(), [&] {
      for (const StoredTensor* tensor : renamed) {
        json.Object("name", tensor->name, "path", tensor->in_tree.keys);
      }
    });
    WriteLeaves(json, "empty", "type", leaves, stored::Leaf::Kind::kEmpty);
    WriteLeaves(json, "strings", "text", leaves, stored::Leaf::Kind::kString);
    WriteList(json, "random_keys", !random_keys.empty(), [&] {
      for (const StoredTensor* tensor : random_keys) {
        json.Object("name", tensor->name, "type", tensor->in_tree.random_key);
      }
    });
    json.EndObject();
  });
}

bool ReadTreeRecord(Stored& stored, Findings& findings) {
  for (const auto& [key, text] : stored.metadata) {
    if (key == kTreeRecordKey) {
      return RecordReader(stored, findings).Read(text);
    }
  }
  return true;
}

Metadata WithNewNames(const Metadata& metadata,
                      std::span<const NewName> tensors) {
  Stored renamed;
  renamed.metadata = metadata;
  // Sets `renamed.leaves` from the record. The other members of the record
  // describe tensors, and `renamed` has no tensors yet.
  Findings ignored;
  ReadTreeRecord(renamed, ignored);
  for (const auto& [tensor, name] : tensors) {
    StoredTensor& one = renamed.tensors.emplace_back();
    one.name = name;
    one.in_tree = tensor->in_tree;
  }
  Metadata out = WithoutTreeRecord(metadata);
  std::string record = TreeRecordText(renamed.tensors, renamed.leaves);
  if (!record.empty()) out.emplace_back(kTreeRecordKey, std::move(record));
  return out;
}

Metadata WithoutTreeRecord(const Metadata& metadata) {
  Metadata out;
  std::copy_if(metadata.begin(), metadata.end(), std::back_inserter(out),
               [](const auto& entry) { return entry.first != kTreeRecordKey; });
  return out;
}

}  // namespace shardc
