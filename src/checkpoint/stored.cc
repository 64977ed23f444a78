// Reads stored checkpoints and checks that their tensors are complete. The
// edges of all pieces of a tensor form a grid. A tensor is complete if the grid
// has exactly as many cells as there are pieces, and each piece is one cell:
//
//   [4, 4] of rows 0:2 and 2:4  ->  edges 0 2 4, 2 cells, complete
//          of rows 0:3 and 2:4  ->  edges 0 2 3 4, 3 cells, not complete
//
// If a piece has replicas, they are counted once, and the first one is read.
#include "checkpoint/stored.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <unordered_map>

#include "checkpoint/shards_index.h"
#include "importers/set_folder.h"
#include "source/directory.h"
#include "source/file.h"
#include "source/index.h"
#include "source/input_file.h"
#include "stored/checksum.h"

namespace shardc {
namespace {

constexpr int64_t kCopyBytes = int64_t{1} << 20;

std::optional<SourceFile> Describe(const std::string& path,
                                   int64_t header_bytes, Findings& findings) {
  const auto file = InputFile::Open(path, findings);
  if (!file) return std::nullopt;
  const auto header = file->Head(AsIndex(header_bytes), findings);
  if (!header) return std::nullopt;
  struct stat status = {};
  if (::fstat(file->fd(), &status) != 0) return std::nullopt;
  return SourceFile{
      path,         file->size(),   ModifiedNs(status), ChangedNs(status),
      header_bytes, Crc32c(*header)};
}

void AddMetadata(const Metadata& more, Metadata& all) {
  for (const auto& entry : more) {
    const bool known =
        std::any_of(all.begin(), all.end(),
                    [&](const auto& old) { return old.first == entry.first; });
    if (!known) all.push_back(entry);
  }
}

bool HasNoElements(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

// Returns whether the pieces have neither overlaps nor gaps: each cell of the
// grid that their edges form is exactly one piece. Uneven shards may be empty,
// and cover nothing. A tensor without elements needs any piece.
bool CoverExactly(const StoredTensor& tensor) {
  const Shape shape = SplitShape(tensor.shape, tensor.dim_parts);
  if (HasNoElements(shape)) return !tensor.pieces.empty();
  const size_t rank = shape.size();
  std::vector<const Box*> boxes;
  for (const SourcePiece& piece : tensor.pieces) {
    if (!HasNoElements(piece.box.shape)) boxes.push_back(&piece.box);
  }
  int64_t cells = 1;
  std::vector<std::set<int64_t>> edges(rank);
  for (size_t dim = 0; dim < rank; ++dim) {
    edges[dim] = {0, shape[dim]};
    for (const Box* box : boxes) {
      edges[dim].insert(box->offset[dim]);
      edges[dim].insert(box->offset[dim] + box->shape[dim]);
    }
    const auto spans = static_cast<int64_t>(edges[dim].size()) - 1;
    cells *= std::max<int64_t>(spans, 1);
    if (cells > static_cast<int64_t>(boxes.size())) return false;
  }
  if (cells != static_cast<int64_t>(boxes.size())) return false;
  return std::all_of(boxes.begin(), boxes.end(), [&](const Box* box) {
    for (size_t dim = 0; dim < rank; ++dim) {
      const int64_t begin = box->offset[dim];
      const int64_t end = begin + box->shape[dim];
      if (*edges[dim].upper_bound(begin) != end) return false;
    }
    return true;
  });
}

class PiecesReader {
 public:
  PiecesReader(const std::string& directory, Findings& findings)
      : directory_(directory), findings_(findings) {}

  std::optional<Stored> Read() {
    const std::string path = PathIn(directory_, kShardsName);
    if (RefuseUnindexed(path)) return std::nullopt;
    const SourceRef source = ReadSource(path, findings_);
    if (source == nullptr) return std::nullopt;
    const auto document = JsonDocument::Parse(source, findings_);
    if (document == nullptr) return std::nullopt;
    const auto index = ParseShardsIndex(*document, findings_);
    if (!index) return std::nullopt;
    place_ = {source};
    // The watch detects another run that replaces the files while they are
    // read. Such a run first marks the index as unfinished. While the index has
    // no such mark, the files stay unchanged.
    const SetWatch watch({path});
    if (IsUnfinishedIndex(path)) {
      Refuse(code::kUnreadable, "`" + path + "` has changed while it was read");
      return std::nullopt;
    }
    stored_.path = directory_;
    stored_.metadata = index->metadata;
    for (const IndexedParam& param : index->params) {
      stored_.tensors.push_back(
          {param.name, param.shape, param.dtype, {}, param.dim_parts});
    }
    seen_.resize(index->params.size());
    const size_t before = findings_.errors();
    for (const IndexedFile& file : index->files) ReadFile(file);
    if (findings_.errors() > before) return std::nullopt;
    for (const StoredTensor& tensor : stored_.tensors) {
      if (CoverExactly(tensor)) continue;
      findings_.Add(code::kTensorMissing, place_,
                    "the pieces of `" + tensor.name + "` do not cover " +
                        ShapeText(tensor.shape) + " whole");
    }
    if (findings_.errors() > before || watch.RefuseChanged(findings_)) {
      return std::nullopt;
    }
    return std::move(stored_);
  }

 private:
  // Adds a finding and returns true if the folder has no index and the names of
  // its files explain this: a run is unfinished, or the files are shards of
  // split tensors.
  bool RefuseUnindexed(const std::string& index) {
    std::error_code error;
    if (std::filesystem::exists(index, error)) return false;
    const auto names = NamesIn(directory_, error);
    return names && (RefuseUnfinishedRun(directory_, *names, findings_) ||
                     RefuseShards(directory_, *names, findings_));
  }

  bool Refuse(const Code& code, std::string message) {
    findings_.Add(code, place_, std::move(message));
    return false;
  }

  bool ReadFile(const IndexedFile& file) {
    const std::string path = PathIn(directory_, file.name);
    if (!IsInFolder(directory_, path, findings_)) return false;
    const auto header = ReadSafetensorsHeader(path, false, findings_);
    if (!header) return false;
    const auto source = Describe(path, header->data_offset, findings_);
    if (!source) return false;
    const auto id = static_cast<uint32_t>(stored_.files.size());
    stored_.files.push_back(*source);
    std::unordered_map<std::string_view, const SafetensorsEntry*> entries;
    for (const SafetensorsEntry& entry : header->entries) {
      entries[entry.name] = &entry;
    }
    for (const IndexedPiece& piece : file.pieces) {
      const auto entry = entries.find(piece.key);
      if (entry == entries.end()) {
        return Refuse(code::kTensorMissing, "`" + piece.key + "` is not in `" +
                                                path +
                                                "`, where the index places it");
      }
      if (!AddPiece(piece, *entry->second, id, header->data_offset, path)) {
        return false;
      }
    }
    if (entries.size() == file.pieces.size()) return true;
    return Refuse(code::kTensorExtra,
                  "`" + path + "` holds tensors that the index does not list");
  }

  bool AddPiece(const IndexedPiece& piece, const SafetensorsEntry& entry,
                uint32_t file, int64_t data_offset, const std::string& path) {
    StoredTensor& tensor = stored_.tensors[piece.param];
    const Shape shape = JoinShape(piece.box.shape, tensor.dim_parts);
    if (entry.shape != shape || entry.dtype != tensor.dtype) {
      return Refuse(code::kSize, "`" + piece.key + "` in `" + path + "` is " +
                                     ShapeText(entry.shape) + " of " +
                                     std::string(DtypeName(entry.dtype)) +
                                     ", but the index has " + ShapeText(shape) +
                                     " of " +
                                     std::string(DtypeName(tensor.dtype)));
    }
    // Only the first replica of a piece is read.
    if (!seen_[piece.param].insert(piece.box).second) return true;
    tensor.pieces.push_back(
        {file, data_offset + entry.begin, piece.box, piece.checksum});
    return true;
  }

  const std::string& directory_;
  Findings& findings_;
  Place place_;
  Stored stored_;
  // Boxes that were read; indexed by parameter.
  std::vector<std::set<Box>> seen_;
};

}  // namespace

std::optional<Stored> ReadStored(const std::string& path, Findings& findings) {
  const auto set = ReadSafetensorsSet(path, false, findings);
  if (!set) return std::nullopt;
  if (set->NamesOnly()) {
    findings.Add(code::kMissing, Place{MakeSource(path, {})},
                 "none of the index's files is present");
    return std::nullopt;
  }
  Stored stored;
  stored.path = path;
  for (const SafetensorsFile& file : set->files) {
    auto source = Describe(file.path, file.header.data_offset, findings);
    if (!source) return std::nullopt;
    stored.files.push_back(std::move(*source));
    AddMetadata(file.header.metadata, stored.metadata);
  }
  for (const SafetensorsSet::Tensor& tensor : set->tensors) {
    const SafetensorsEntry& entry = set->EntryOf(tensor);
    const auto file = static_cast<uint32_t>(tensor.file);
    stored.tensors.push_back(
        {tensor.name,
         entry.shape,
         entry.dtype,
         {{file, set->files[file].header.data_offset + entry.begin,
           FullBox(entry.shape), std::nullopt}}});
  }
  return stored;
}

std::optional<Stored> ReadStoredPieces(const std::string& directory,
                                       Findings& findings) {
  return PiecesReader(directory, findings).Read();
}

bool VerifyStored(const Stored& stored, const ProcessShare& share,
                  int64_t* verified, Findings& findings) {
  // A tree has no index with checksums. If its format stores checksums, they
  // are verified when the chunks are read for the copy.
  if (stored.tree != nullptr) return true;
  std::vector<InputFile> files;
  for (const SourceFile& source : stored.files) {
    auto file = InputFile::Open(source.path, findings);
    if (!file) return false;
    files.push_back(std::move(*file));
  }
  std::string buffer;
  int64_t seen = 0;
  for (const StoredTensor& tensor : stored.tensors) {
    for (const SourcePiece& piece : tensor.pieces) {
      if (!piece.checksum) continue;
      if (seen++ % share.count != share.index) continue;
      ++*verified;
      uint32_t crc = 0;
      int64_t left = piece.box.Elements() * DtypeBits(tensor.dtype) / 8;
      for (int64_t at = piece.offset; left > 0;) {
        const int64_t count = std::min(left, kCopyBytes);
        buffer.resize(AsIndex(count));
        if (!files[piece.file].ReadAt(at, buffer.data(), buffer.size(),
                                      findings)) {
          return false;
        }
        crc = Crc32c(buffer, crc);
        at += count, left -= count;
      }
      if (crc == *piece.checksum) continue;
      const std::string& path = stored.files[piece.file].path;
      findings.Add(code::kUnreadable, Place{MakeSource(path, {})},
                   "the piece of `" + tensor.name + "` at " +
                       ShapeText(piece.box.offset) + " in `" + path +
                       "` has the checksum " + ChecksumText(crc) +
                       ", and the index records " +
                       ChecksumText(*piece.checksum),
                   "split the checkpoint again, or restore the file");
      return false;
    }
  }
  return true;
}

}  // namespace shardc
