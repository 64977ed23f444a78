// Reads `.metadata`, which is a pickle of one record with three dictionaries. A
// box is a rectangular part of a tensor, which DCP calls a chunk. The first
// dictionary lists the tensors with the boxes that ranks saved. The second
// dictionary maps a tensor's name and a box's offset to the file and the byte
// range of the box. The third dictionary contains the path of each name:
//
//   Metadata
//     state_dict_metadata: {'w': TensorStorageMetadata
//       properties: (torch.float32, layout, ...)
//       size: torch.Size([4, 2])
//       chunks: [{offsets: [0, 0], sizes: [2, 2]},
//                {offsets: [2, 0], sizes: [2, 2]}]}
//     storage_data: {MetadataIndex('w', [0, 0]):
//                      _StorageInfo('__0_0.distcp', 0, 1404), ...}
//     planner_data: {'w': ('w',)}     the keys from the root of the tree
//
// The entry of a value that is not a tensor is an empty BytesStorageMetadata.
// Boxes without elements are saved too, but are skipped here.
#include "stored/dcp.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/input_file.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/box.h"
#include "stored/pickle.h"
#include "stored/torch_archive.h"
#include "stored/tree.h"

namespace shardc::stored {
namespace {

using Type = PickleValue::Type;
using Use = PickleGlobal::Use;

constexpr size_t kMaxNameBytes = 4096;

std::vector<PickleGlobal> MetadataGlobals() {
  constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";
  // The name of the module before torch 2.3.
  constexpr std::string_view kOlder =
      "torch.distributed._shard.sharded_tensor.metadata";
  std::vector<PickleGlobal> out = {
      {"torch.distributed.checkpoint.filesystem", "_StorageInfo", Use::kRecord},
      {"torch", "Size", Use::kCall},
      {"torch.serialization", "_get_layout", Use::kCall},
      {kModule, "_MEM_FORMAT_ENCODING", Use::kEnumeration},
      {kOlder, "MEM_FORMAT_ENCODING", Use::kEnumeration},
      // In Python 3.11.0 to 3.11.3 a member of an enumeration is pickled as a
      // call of getattr.
      {"builtins", "getattr", Use::kMember},
      {"__builtin__", "getattr", Use::kMember},
      {kOlder, "TensorProperties", Use::kRecord},
      {"pathlib", "PosixPath", Use::kCall},
      {"pathlib", "WindowsPath", Use::kCall},
      {"pathlib._local", "PosixPath", Use::kCall},
      {"pathlib._local", "WindowsPath", Use::kCall},
      {"collections", "OrderedDict", Use::kDictionary},
  };
  for (const std::string_view name :
       {"Metadata", "TensorStorageMetadata", "BytesStorageMetadata",
        "TensorProperties", "ChunkStorageMetadata", "MetadataIndex",
        "StorageMeta"}) {
    out.push_back({kModule, name, Use::kRecord});
  }
  for (const TorchDtype& type : TorchDtypes()) {
    out.push_back({"torch", type.name, Use::kConstant});
  }
  return out;
}

class MetadataReader {
 public:
  MetadataReader(const SourceRef& source, Findings& findings)
      : source_(source), findings_(findings) {}

  std::optional<DcpMetadata> Read() {
    static const std::vector<PickleGlobal> kGlobals = MetadataGlobals();
    std::string why;
    const auto pickle =
        Pickle::Parse(source_->text(), {.globals = kGlobals}, &why);
    if (!pickle) {
      Refuse(code::kHeader, why,
             "give a folder that torch.distributed.checkpoint has written");
      return std::nullopt;
    }
    const PickleValue root = pickle->root();
    if (!IsRecord(root, "Metadata")) {
      Refuse(code::kHeader, "the pickle is no `Metadata` of DCP");
      return std::nullopt;
    }
    if (!ReadTensors(root.Field("state_dict_metadata")) ||
        !ReadStorage(root.Field("storage_data")) || !CheckComplete()) {
      return std::nullopt;
    }
    ReadPaths(root.Field("planner_data"));
    return std::move(out_);
  }

 private:
  // The entry that a name refers to: out_.tensors[number] if `is_tensor`, else
  // out_.others[number].
  struct Target {
    size_t number = 0;
    bool is_tensor = false;
  };

  bool Refuse(const Code& code, std::string message, std::string help = {}) {
    findings_.Add(code, {source_}, std::move(message), std::move(help));
    return false;
  }
  bool Malformed(const std::string& what) {
    return Refuse(code::kHeader, what, "save the checkpoint again");
  }
  bool BadTensor(const DcpTensor& tensor, const std::string& what) {
    return Malformed("of tensor " + ShortQuote(tensor.name) + " " + what);
  }

  static bool IsRecord(const PickleValue& value, std::string_view name) {
    return value.type() == Type::kRecord && value.Is(name);
  }

  // Reads a shape from a torch.Size, a tuple or a list of sizes.
  static std::optional<Shape> ReadShape(PickleValue value) {
    if (value.type() == Type::kCall && value.Is("Size")) {
      const PickleValue arguments = value.Content();
      if (arguments.size() != 1) return std::nullopt;
      value = arguments[0];
    }
    if ((value.type() != Type::kTuple && value.type() != Type::kList) ||
        value.size() > kMostTensorDims) {
      return std::nullopt;
    }
    Shape out(value.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const auto size = value[i].Int();
      if (!size || *size < 0) return std::nullopt;
      out[i] = *size;
    }
    return out;
  }

  bool ReadTensors(const PickleValue& listed) {
    if (listed.type() != Type::kDictionary) {
      return Malformed("`state_dict_metadata` is no dictionary");
    }
    for (size_t i = 0; i < listed.size(); ++i) {
      const auto name = listed.Key(i).Text();
      if (!name) {
        return Malformed("a name in `state_dict_metadata` is no text");
      }
      if (name->size() > kMaxNameBytes ||
          name->find('\0') != std::string_view::npos) {
        return Refuse(code::kName, "the name " + ShortQuote(*name) +
                                       " has more than " +
                                       std::to_string(kMaxNameBytes) +
                                       " bytes or holds a NUL");
      }
      const PickleValue value = listed.Value(i);
      const bool is_tensor = IsRecord(value, "TensorStorageMetadata");
      if (!is_tensor && !IsRecord(value, "BytesStorageMetadata")) {
        return Malformed("the entry of " + ShortQuote(*name) +
                         " is neither a tensor nor bytes");
      }
      const size_t number =
          is_tensor ? out_.tensors.size() : out_.others.size();
      if (!names_.emplace(*name, Target{number, is_tensor}).second) {
        return Refuse(code::kDuplicateKey,
                      "the name " + ShortQuote(*name) + " is listed twice");
      }
      if (!is_tensor) {
        DcpValue& other = out_.others.emplace_back();
        other.name = *name;
        other.piece.bytes = -1;
        continue;
      }
      DcpTensor& tensor = out_.tensors.emplace_back();
      tensor.name = *name;
      if (!ReadTensor(value, tensor)) return false;
    }
    return true;
  }

  bool ReadTensor(const PickleValue& value, DcpTensor& tensor) {
    const auto shape = ReadShape(value.Field("size"));
    if (!shape) return BadTensor(tensor, "the shape is no tuple of sizes");
    tensor.shape = *shape;
    const PickleValue properties = value.Field("properties").Content();
    if (properties.type() != Type::kTuple || properties.size() < 5 ||
        properties[0].type() != Type::kGlobal) {
      return BadTensor(tensor, "the data type is missing");
    }
    tensor.dtype = TorchDtypeByName(properties[0].Global()->name);
    if (tensor.dtype == nullptr) {
      return BadTensor(tensor, "the data type is no `torch.dtype`");
    }
    const auto elements = CheckedProduct(tensor.shape);
    if (!elements || !CheckedMul(*elements, tensor.dtype->bytes)) {
      return Refuse(code::kOverflow, "the size of tensor " +
                                         ShortQuote(tensor.name) + " with " +
                                         "shape " + ShapeText(tensor.shape) +
                                         " does not fit in 64 bits");
    }
    return ReadChunks(value.Field("chunks"), tensor);
  }

  bool ReadChunks(const PickleValue& chunks, DcpTensor& tensor) {
    if (chunks.type() != Type::kList && chunks.type() != Type::kTuple) {
      return BadTensor(tensor, "the shards are no list");
    }
    // Limit the number of pieces by the size of the file. Many tensors may
    // share one list of the pickle, which is read again for each tensor. A
    // small file could therefore list far more pieces than it has bytes.
    pieces_ += chunks.size();
    if (pieces_ > source_->text().size()) {
      return BadTensor(tensor, "the shards exceed what the file can list");
    }
    for (size_t i = 0; i < chunks.size(); ++i) {
      const PickleValue chunk = chunks[i];
      const auto offset = ReadShape(chunk.Field("offsets"));
      const auto shape = ReadShape(chunk.Field("sizes"));
      if (!IsRecord(chunk, "ChunkStorageMetadata") || !offset || !shape ||
          offset->size() != tensor.shape.size() ||
          shape->size() != tensor.shape.size()) {
        return BadTensor(tensor, "shard " + std::to_string(i) +
                                     " has no offsets and sizes of rank " +
                                     std::to_string(tensor.shape.size()));
      }
      if (!Inside(*offset, *shape, tensor.shape)) {
        return BadTensor(tensor, "the shard at " + ShapeText(*offset) +
                                     " of shape " + ShapeText(*shape) +
                                     " ends outside the shape " +
                                     ShapeText(tensor.shape));
      }
      DcpPiece piece;
      piece.box = {*offset, *shape};
      // The value -1 marks the place as not set. ReadStorage sets the place of
      // the piece.
      piece.bytes = -1;
      if (piece.box.Elements() > 0) tensor.pieces.push_back(std::move(piece));
    }
    return SortPieces(tensor);
  }

  static bool Inside(const Shape& offset, const Shape& shape,
                     const Shape& full) {
    for (size_t i = 0; i < full.size(); ++i) {
      if (shape[i] > full[i] || offset[i] > full[i] - shape[i]) return false;
    }
    return true;
  }

  // Sorts the pieces by offset and removes duplicates. Returns false after a
  // finding if two different boxes begin at the same offset.
  bool SortPieces(DcpTensor& tensor) {
    auto& pieces = tensor.pieces;
    std::sort(
        pieces.begin(), pieces.end(),
        [](const DcpPiece& a, const DcpPiece& b) { return a.box < b.box; });
    pieces.erase(std::unique(pieces.begin(), pieces.end(),
                             [](const DcpPiece& a, const DcpPiece& b) {
                               return a.box == b.box;
                             }),
                 pieces.end());
    for (size_t i = 1; i < pieces.size(); ++i) {
      if (pieces[i].box.offset == pieces[i - 1].box.offset) {
        return BadTensor(
            tensor, "two shards begin at " + ShapeText(pieces[i].box.offset));
      }
    }
    return true;
  }

  bool ReadStorage(const PickleValue& storage) {
    if (storage.type() != Type::kDictionary) {
      return Malformed("`storage_data` is no dictionary");
    }
    for (size_t i = 0; i < storage.size(); ++i) {
      const PickleValue index = storage.Key(i);
      if (!IsRecord(index, "MetadataIndex") || !index.Field("fqn").Text()) {
        return Malformed("a key of `storage_data` is no `MetadataIndex`");
      }
      const Target* target = Find(index.Field("fqn"));
      if (target == nullptr) continue;
      if (!target->is_tensor) {
        ReadValuePlace(storage.Value(i), out_.others[target->number].piece);
        continue;
      }
      DcpTensor& tensor = out_.tensors[target->number];
      const auto offset = ReadShape(index.Field("offset"));
      if (!offset)
        return BadTensor(tensor, "the index of a shard is no offset");
      const auto found =
          std::lower_bound(tensor.pieces.begin(), tensor.pieces.end(), *offset,
                           [](const DcpPiece& piece, const Shape& at) {
                             return piece.box.offset < at;
                           });
      if (found == tensor.pieces.end() || found->box.offset != *offset) {
        continue;  // a box without elements, which `pieces` does not have
      }
      if (found->bytes < 0 && !ReadPlace(storage.Value(i), tensor, *found)) {
        return false;
      }
    }
    return true;
  }

  // Returns the tensor or the other value that has a name, or null if
  // `state_dict_metadata` does not list the name. Many pieces refer to the same
  // string of the pickle as their name, so each string is looked up only once.
  const Target* Find(const PickleValue& name) {
    const auto [known, is_new] = targets_.try_emplace(name.id(), nullptr);
    if (is_new) {
      const auto found = names_.find(*name.Text());
      if (found != names_.end()) known->second = &found->second;
    }
    return known->second;
  }

  bool ReadPlace(const PickleValue& info, const DcpTensor& tensor,
                 DcpPiece& piece) {
    const PickleValue path = info.Field("relative_path");
    const auto offset = info.Field("offset").Int();
    const auto bytes = info.Field("length").Int();
    if (!IsRecord(info, "_StorageInfo") || !path.Text() || !offset || !bytes ||
        *offset < 0 || *bytes < 0 || !CheckedAdd(*offset, *bytes)) {
      return BadTensor(tensor, "the place of the shard at " +
                                   ShapeText(piece.box.offset) +
                                   " is no file, offset and length");
    }
    const PickleValue transforms = info.Field("transform_descriptors");
    if (transforms.size() > 0) {
      const std::string_view by = transforms.type() == Type::kDictionary
                                      ? "an extension"
                                      : transforms[0].Text().value_or("?");
      return Refuse(code::kInexpressible,
                    "tensor " + ShortQuote(tensor.name) +
                        " was written through the extension " + ShortQuote(by) +
                        ", which shardc does not read",
                    "load it with torch and save it without extensions");
    }
    const auto [known, is_new] = files_.try_emplace(path.id(), 0);
    if (is_new && !ReadFileName(*path.Text(), &known->second)) return false;
    piece.file = known->second;
    piece.offset = *offset;
    piece.bytes = *bytes;
    return true;
  }

  // Reads the place at which a value is stored. If shardc cannot use the entry,
  // `piece` is not set, but the value is still listed.
  void ReadValuePlace(const PickleValue& info, DcpPiece& piece) {
    const auto path = info.Field("relative_path").Text();
    const auto offset = info.Field("offset").Int();
    const auto bytes = info.Field("length").Int();
    if (!IsRecord(info, "_StorageInfo") || !path || !IsFileName(*path) ||
        !offset || !bytes || *offset < 0 || *bytes < 0 ||
        !CheckedAdd(*offset, *bytes) ||
        info.Field("transform_descriptors").size() > 0) {
      return;
    }
    piece.file = FileNumber(*path);
    piece.offset = *offset;
    piece.bytes = *bytes;
  }

  static bool IsFileName(std::string_view name) {
    return !name.empty() && name.size() <= 255 && name[0] != '.' &&
           name.find_first_of(std::string_view("/\\\0", 3)) ==
               std::string_view::npos;
  }

  uint32_t FileNumber(std::string_view name) {
    const auto [known, is_new] = file_names_.try_emplace(
        std::string(name), static_cast<uint32_t>(out_.files.size()));
    if (is_new) out_.files.emplace_back(name);
    return known->second;
  }

  bool ReadFileName(std::string_view name, uint32_t* file) {
    if (!IsFileName(name)) {
      return Refuse(code::kPath, "the file name " + ShortQuote(name) +
                                     " points outside the folder");
    }
    *file = FileNumber(name);
    return true;
  }

  bool CheckComplete() {
    for (const DcpTensor& tensor : out_.tensors) {
      for (const DcpPiece& piece : tensor.pieces) {
        if (piece.bytes >= 0) continue;
        return BadTensor(tensor, "the shard at " + ShapeText(piece.box.offset) +
                                     " is not in `storage_data`");
      }
    }
    return true;
  }

  // Reads the paths of tensors and other values. The keys of a path, joined by
  // dots, must be the name. Custom planners may store paths in another form.
  // Such a path is ignored, and the name is then the only key.
  void ReadPaths(const PickleValue& paths) {
    for (DcpTensor& tensor : out_.tensors) tensor.path = {tensor.name};
    for (DcpValue& other : out_.others) other.path = {other.name};
    if (paths.type() != Type::kDictionary) return;
    for (size_t i = 0; i < paths.size(); ++i) {
      const PickleValue keys = paths.Value(i);
      if (!paths.Key(i).Text() ||
          (keys.type() != Type::kTuple && keys.type() != Type::kList)) {
        continue;
      }
      const Target* target = Find(paths.Key(i));
      if (target == nullptr) continue;
      if (target->is_tensor) {
        TakePath(keys, out_.tensors[target->number]);
      } else {
        TakePath(keys, out_.others[target->number]);
      }
    }
  }

  template <class Named>
  static void TakePath(const PickleValue& keys, Named& named) {
    auto path = ReadPath(keys, named.name);
    if (!path) return;
    named.path = std::move(*path);
    named.in_sequence.clear();
    for (size_t i = 0; i < keys.size(); ++i) {
      named.in_sequence.push_back(keys[i].Int().has_value());
    }
  }

  static std::optional<std::vector<std::string>> ReadPath(
      const PickleValue& keys, std::string_view name) {
    std::vector<std::string> out;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i > 0 && !name.starts_with('.')) return std::nullopt;
      if (i > 0) name.remove_prefix(1);
      const auto number = keys[i].Int();
      const auto text = keys[i].Text();
      if (!number && !text) return std::nullopt;
      if (text && text->size() > name.size()) return std::nullopt;
      std::string key = text ? std::string(*text) : std::to_string(*number);
      if (!name.starts_with(key)) return std::nullopt;
      name.remove_prefix(key.size());
      out.push_back(std::move(key));
    }
    if (!name.empty() || out.empty()) return std::nullopt;
    return out;
  }

  SourceRef source_;
  Findings& findings_;
  DcpMetadata out_;
  size_t pieces_ = 0;
  std::unordered_map<std::string_view, Target> names_;
  // The results of Find(), keyed by the id of the name's string in the pickle.
  std::unordered_map<uint32_t, const Target*> targets_;
  std::unordered_map<uint32_t, uint32_t> files_;
  std::unordered_map<std::string, uint32_t> file_names_;
};

}  // namespace

std::optional<DcpMetadata> ParseDcpMetadata(const SourceRef& source,
                                            Findings& findings) {
  return MetadataReader(source, findings).Read();
}

// Merges the metadata that several ranks wrote. A rank that saves without
// collectives lists only the pieces and values that it has saved. Several ranks
// therefore list a sharded tensor, each with its own pieces. A piece that
// several ranks hold is listed by each of these ranks:
//
//   rank 0   `w` [4, 2], pieces at [0, 0] and [2, 0]
//   rank 1   `w` [4, 2], piece at [2, 0], and a value `step`
//   merged   `w` with its two pieces, each read from rank 0, and `step`

namespace {

// Adds those pieces of `more` to `into` that `into` does not contain yet. Both
// lists must be sorted by box, and `into` stays sorted.
void MergePieces(std::vector<DcpPiece> more, std::vector<DcpPiece>& into) {
  const auto before = [](const DcpPiece& a, const DcpPiece& b) {
    return a.box < b.box;
  };
  std::vector<DcpPiece> out;
  std::set_union(into.begin(), into.end(), more.begin(), more.end(),
                 std::back_inserter(out), before);
  into = std::move(out);
}

}  // namespace

bool MergeDcpMetadata(DcpMetadata more, const Place& place, DcpMetadata& into,
                      Findings& findings) {
  const auto first_file = static_cast<uint32_t>(into.files.size());
  into.files.insert(into.files.end(), more.files.begin(), more.files.end());
  std::unordered_map<std::string_view, size_t> known;
  for (size_t i = 0; i < into.tensors.size(); ++i) {
    known.emplace(into.tensors[i].name, i);
  }
  std::vector<DcpTensor> added;
  for (DcpTensor& tensor : more.tensors) {
    for (DcpPiece& piece : tensor.pieces) piece.file += first_file;
    const auto found = known.find(tensor.name);
    if (found == known.end()) {
      added.push_back(std::move(tensor));
      continue;
    }
    DcpTensor& other = into.tensors[found->second];
    if (other.shape != tensor.shape || other.dtype != tensor.dtype) {
      findings.Add(code::kSize, place,
                   "tensor " + ShortQuote(tensor.name) + " has shape " +
                       ShapeText(tensor.shape) + ", and " +
                       ShapeText(other.shape) +
                       " or another data type in the metadata of a rank "
                       "before it",
                   "remove the files that an earlier save has left");
      return false;
    }
    MergePieces(std::move(tensor.pieces), other.pieces);
  }
  known.clear();
  std::move(added.begin(), added.end(), std::back_inserter(into.tensors));
  for (DcpValue& other : more.others) {
    other.piece.file += first_file;
    into.others.push_back(std::move(other));
  }
  const auto by_name = [](const DcpValue& a, const DcpValue& b) {
    return a.name < b.name;
  };
  std::stable_sort(into.others.begin(), into.others.end(), by_name);
  into.others.erase(std::unique(into.others.begin(), into.others.end(),
                                [](const DcpValue& a, const DcpValue& b) {
                                  return a.name == b.name;
                                }),
                    into.others.end());
  return true;
}

namespace {

// Opens checkpoints of torch.distributed.checkpoint (DCP). The file `.metadata`
// lists tensors, pieces and files (dcp.h). Every piece is an archive
// of `torch.save` inside one of the files (torch_archive.h).
//
//   .metadata      tensor `w`, shape [4, 2]; rows 0-1 at bytes 0-1403 of
//                  __0_0.distcp, rows 2-3 at bytes 0-1403 of __1_0.distcp
//   __0_0.distcp   written by rank 0
//   __1_0.distcp   written by rank 1
//
// If ranks save without collectives, each rank writes its own metadata:
// `__0.metadata`, `__1.metadata` and so on. These files are merged if there is
// no `.metadata`.

constexpr std::string_view kName = "PyTorch DCP";
constexpr std::string_view kMetadata = ".metadata";

// Returns whether the name consists of `__`, the number of a rank, and the
// ending.
bool IsOfRank(std::string_view name, std::string_view ending) {
  if (!name.starts_with("__") || !name.ends_with(ending)) return false;
  name.remove_prefix(2);
  name.remove_suffix(ending.size());
  return !name.empty() &&
         name.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsPickle(const std::string& path) {
  Findings none;
  const auto file = InputFile::Open(path, none);
  const auto head = file ? file->Head(2, none) : std::nullopt;
  return head && head->size() == 2 && (*head)[0] == '\x80';
}

bool Detect(const Folder& folder) {
  for (const std::string& name : folder.names) {
    if (IsOfRank(name, kMetadata) || name.ends_with(".distcp")) return true;
  }
  return folder.Has(kMetadata) && IsPickle(folder.PathOf(kMetadata));
}

class DcpReader : public ChunkReader {
 public:
  DcpReader(std::string folder, DcpMetadata metadata)
      : folder_(std::move(folder)), metadata_(std::move(metadata)) {}

  std::optional<std::string> Read(size_t array, int64_t chunk,
                                  Findings& findings) const override {
    const auto file = Open(array, chunk, findings);
    if (!file) return std::nullopt;
    const auto tensor = Tensor(array, chunk, *file, findings);
    if (!tensor) return std::nullopt;
    return ReadTorchData(*file, *tensor, findings);
  }

  std::optional<ChunkPlace> Find(size_t array, int64_t chunk,
                                 Findings& findings) const override {
    const auto file = Open(array, chunk, findings);
    if (!file) return std::nullopt;
    const auto tensor = Tensor(array, chunk, *file, findings);
    if (!tensor) return std::nullopt;
    return ChunkPlace{file->path(), tensor->data_offset, tensor->data_bytes,
                      tensor->IsPlain()};
  }

 private:
  const DcpPiece& PieceOf(size_t array, int64_t chunk) const {
    return metadata_.tensors[array].pieces[AsIndex(chunk)];
  }

  std::optional<InputFile> Open(size_t array, int64_t chunk,
                                Findings& findings) const {
    const std::string& name = metadata_.files[PieceOf(array, chunk).file];
    return InputFile::Open(folder_ + name, findings);
  }

  // Reads the pickle of a piece's archive. Returns nullopt after a finding, for
  // example if the shape or the data type differs from the metadata.
  std::optional<TorchTensor> Tensor(size_t array, int64_t chunk,
                                    const InputFile& file,
                                    Findings& findings) const {
    const DcpPiece& piece = PieceOf(array, chunk);
    auto tensor = ReadTorchTensor(file, piece.offset, piece.bytes, findings);
    const DcpTensor& listed = metadata_.tensors[array];
    if (!tensor ||
        (tensor->shape == piece.box.shape && tensor->dtype == listed.dtype)) {
      return tensor;
    }
    findings.Add(code::kSize, {MakeSource(file.path(), {})},
                 "the archive at byte " + std::to_string(piece.offset) +
                     " holds a tensor of shape " + ShapeText(tensor->shape) +
                     " and type " + std::string(tensor->dtype->name) +
                     ", and `.metadata` lists " + ShapeText(piece.box.shape) +
                     " and " + std::string(listed.dtype->name) + " for " +
                     ShortQuote(listed.name),
                 "the files are of different saves: copy the folder again");
    return std::nullopt;
  }

  std::string folder_;  // path that ends in a slash
  DcpMetadata metadata_;
};

class DcpOpener {
 public:
  DcpOpener(const Folder& folder, Findings& findings)
      : folder_(folder), findings_(findings) {}

  std::optional<Tree> Open() {
    auto metadata = ReadMetadata();
    if (!metadata || !CheckPieces(*metadata) || !CheckFiles(*metadata)) {
      return std::nullopt;
    }
    tree_.path = folder_.path;
    tree_.form = kName;
    for (const DcpTensor& tensor : metadata->tensors) AddArray(tensor);
    for (const DcpValue& other : metadata->others) AddValue(other, *metadata);
    tree_.reader =
        std::make_shared<DcpReader>(folder_.PathOf(""), std::move(*metadata));
    return std::move(tree_);
  }

 private:
  std::nullopt_t Refuse(const Code& code, std::string message,
                        std::string help) {
    findings_.Add(code, {MakeSource(folder_.path, {})}, std::move(message),
                  std::move(help));
    return std::nullopt;
  }

  std::optional<DcpMetadata> ReadOne(const std::string& name) {
    const SourceRef source =
        ReadSource(folder_.PathOf(name), findings_, kDcpMetadataLimitBytes);
    if (source == nullptr) return std::nullopt;
    return ParseDcpMetadata(source, findings_);
  }

  std::optional<DcpMetadata> ReadMetadata() {
    if (folder_.Has(kMetadata)) return ReadOne(std::string(kMetadata));
    std::optional<DcpMetadata> out;
    int64_t ranks = 0;
    for (const std::string& name : folder_.names) {
      if (!IsOfRank(name, kMetadata)) continue;
      auto more = ReadOne(name);
      if (!more) return std::nullopt;
      ++ranks;
      if (!out) {
        out = std::move(*more);
      } else if (!MergeDcpMetadata(std::move(*more),
                                   {MakeSource(folder_.PathOf(name), {})}, *out,
                                   findings_)) {
        return std::nullopt;
      }
    }
    if (!out) {
      return Refuse(code::kMissing,
                    "the folder holds data files of PyTorch DCP and no "
                    "`.metadata`, which is written last",
                    "the save was not finished: use an earlier checkpoint");
    }
    tree_.notes.push_back("saved without collectives: the metadata of " +
                          Counted(ranks, "rank") + " is merged");
    return out;
  }

  bool CheckPieces(const DcpMetadata& metadata) {
    for (const DcpTensor& tensor : metadata.tensors) {
      std::vector<Box> boxes;
      boxes.reserve(tensor.pieces.size());
      for (const DcpPiece& piece : tensor.pieces) boxes.push_back(piece.box);
      const auto why = WhyNotCovered(tensor.shape, boxes);
      if (!why) continue;
      Refuse(code::kOffsets,
             "tensor " + ShortQuote(tensor.name) + " of shape " +
                 ShapeText(tensor.shape) + " is not complete: " + *why,
             "use a checkpoint that all ranks have written");
      if (findings_.Full()) return false;
    }
    return !findings_.HasErrors();
  }

  // Checks that every file with pieces of tensors exists and is long enough for
  // these pieces.
  bool CheckFiles(const DcpMetadata& metadata) {
    std::vector<int64_t> needed(metadata.files.size(), -1);
    for (const DcpTensor& tensor : metadata.tensors) {
      for (const DcpPiece& piece : tensor.pieces) {
        int64_t& end = needed[piece.file];
        end = std::max(end, piece.offset + piece.bytes);
      }
    }
    for (size_t i = 0; i < needed.size() && !findings_.Full(); ++i) {
      if (needed[i] < 0) continue;
      const auto file =
          InputFile::Open(folder_.PathOf(metadata.files[i]), findings_);
      if (!file || file->size() >= needed[i]) continue;
      findings_.Add(code::kOffsets, {MakeSource(file->path(), {})},
                    "the file has " + CountText(file->size()) +
                        " bytes, and its shards end at byte " +
                        CountText(needed[i]),
                    "the file is truncated: copy it again");
    }
    return !findings_.HasErrors();
  }

  void AddValue(const DcpValue& value, const DcpMetadata& metadata) {
    Leaf& leaf = tree_.leaves.emplace_back();
    leaf.name = value.name;
    leaf.text = "pickled value";
    leaf.path = value.path;
    leaf.in_sequence = value.in_sequence;
    if (value.piece.bytes < 0) return;
    leaf.place = ChunkPlace{folder_.PathOf(metadata.files[value.piece.file]),
                            value.piece.offset, value.piece.bytes};
  }

  void AddArray(const DcpTensor& tensor) {
    Array& array = tree_.arrays.emplace_back();
    array.name = tensor.name;
    array.key = tensor.name;
    array.path = tensor.path;
    array.in_sequence = tensor.in_sequence;
    array.shape = tensor.shape;
    array.dtype = tensor.dtype->dtype;
    array.element_bytes = tensor.dtype->bytes;
    if (!array.dtype) {
      array.unreadable =
          "tensor " + ShortQuote(tensor.name) + " has the type torch." +
          std::string(tensor.dtype->name) + ", which safetensors does not have";
    }
    for (const int64_t size : tensor.shape) {
      array.chunk.push_back(std::max<int64_t>(size, 1));
    }
    array.pieces.reserve(tensor.pieces.size());
    for (const DcpPiece& piece : tensor.pieces) {
      array.pieces.push_back(piece.box);
    }
  }

  const Folder& folder_;
  Findings& findings_;
  Tree tree_;
};

std::optional<Tree> Open(const Folder& folder, Findings& findings) {
  return DcpOpener(folder, findings).Open();
}

}  // namespace

extern const Format kDcpFolder;
const Format kDcpFolder{kName, Detect, Open};

}  // namespace shardc::stored
