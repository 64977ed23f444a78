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
#include "checkpoint/shards_index.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "plan/placement.h"
#include "source/json_writer.h"
#include "source/size.h"
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
               SplitShape(param.shape, param.dim_parts), "offset",
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
    const Shape whole = SplitShape(of.shape, of.dim_parts);
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

}  // namespace shardc
