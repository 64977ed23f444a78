// Opens checkpoints of torch.distributed.checkpoint (DCP). The file `.metadata`
// lists tensors, pieces and files (dcp_metadata.h). Every piece is an archive
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
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/input_file.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/box.h"
#include "stored/dcp_metadata.h"
#include "stored/torch_archive.h"
#include "stored/tree.h"

namespace shardc::stored {
namespace {

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
