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
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "checkpoint/shard_plan.h"
#include "checkpoint/shards_index.h"
#include "checkpoint/tree_copy.h"
#include "importers/set_folder.h"
#include "source/digest.h"
#include "source/file.h"
#include "source/input_file.h"
#include "source/list.h"
#include "source/process.h"
#include "source/size.h"
#include "source/wording.h"
#include "stored/checksum.h"
#include "stored/torch_archive.h"
#include "stored/tree.h"

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

bool HasNoElements(const Shape& shape) { return IsAmong(0, shape); }

// Returns whether the pieces have neither overlaps nor gaps: each cell of the
// grid that their edges form is exactly one piece. Uneven shards may be empty,
// and cover nothing. A tensor without elements needs any piece.
bool CoverExactly(const StoredTensor& tensor) {
  const Shape shape = SplitShape(tensor.shape, EqualAmong(tensor.dim_parts));
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
                    "the shards of `" + tensor.name + "` do not cover " +
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
    const Shape shape =
        JoinShape(piece.box.shape, EqualAmong(tensor.dim_parts));
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
                   "the shard of `" + tensor.name + "` at " +
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

// Opens a checkpoint of another system (orbax, zarr, PyTorch DCP), which is
// called a stored tree. The elements of the tree's arrays are read later. No
// chunk is decoded here, but the place of every chunk is looked up. For an
// orbax array `w` of 4 chunks in the file d/4f1a, the result contains:
//
//   the tensor `w`, with a digest of the files and offsets of its 4 chunks
//   the files manifest.ocdbt (metadata) and d/4f1a (the chunks)
//
// A run that continues an interrupted run recognises the unchanged tree by this
// digest and by the sizes and times of the files.

namespace {

// Returns whether elements of this type may end inside a byte in safetensors
// files. In zarr each such element takes a byte of its own.
bool IsPackedInFiles(Dtype dtype) {
  return dtype == Dtype::kF4 || dtype == Dtype::kF6E2M3 ||
         dtype == Dtype::kF6E3M2;
}

namespace fs = std::filesystem;

constexpr std::string_view kSelectHelp =
    "leave it out: `--params REGEX` names the arrays to copy";
constexpr size_t kFold = size_t{1} << 20;

// Returns whether a file of this name contains metadata of a tree. Chunks are
// in other files.
bool IsDescription(std::string_view name) {
  return name == "_METADATA" || name == "_sharding" || name == ".zarray" ||
         name == "zarr.json" || name.starts_with("manifest.") ||
         name.ends_with(".metadata");
}

// A digest of the files, offsets and sizes of chunks.
class PlacesDigest {
 public:
  void Add(int64_t number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    if (text_.size() >= kFold) text_ = Sha256(text_);
  }
  std::string Take() { return Sha256(text_); }

 private:
  std::string text_;
};

class TreeInput {
 public:
  TreeInput(const InputOptions& options, Findings& findings)
      : options_(options),
        memory_bytes_(options.memory_bytes.value_or(FreeMemory() / 2)),
        findings_(findings) {}

  std::optional<Stored> Read(const std::string& path) {
    auto tree = stored::OpenTree(path, findings_);
    if (!tree) return std::nullopt;
    tree_ = std::make_shared<const stored::Tree>(std::move(*tree));
    out_.path = path;
    out_.tree = tree_;
    out_.notes = tree_->notes;
    // Loaders of safetensors files expect the entry `format`.
    out_.metadata = {{"format", "pt"}};
    const size_t before = findings_.errors();
    if (options_.listing) {
      ListLeaves();
    } else {
      CheckLeaves();
      NoteLeaves();
    }
    std::vector<size_t> arrays;
    for (size_t i = 0; i < tree_->arrays.size(); ++i) {
      if (!Selected(tree_->arrays[i].name)) continue;
      if (options_.listing && ListOther(tree_->arrays[i])) continue;
      arrays.push_back(i);
      if (!options_.listing) CheckArray(tree_->arrays[i]);
    }
    if (options_.select && arrays.empty()) {
      AddNothingSelected(tree_->arrays.size(), findings_);
    }
    if (findings_.errors() > before) return std::nullopt;
    AddDescriptions(path);
    for (const stored::Leaf& leaf : out_.leaves) {
      if (leaf.place && !AddValue(leaf)) return std::nullopt;
    }
    for (const size_t array : arrays) {
      if (!AddTensor(array)) return std::nullopt;
    }
    if (absent_ > 0) {
      out_.notes.push_back(Counted(absent_, "chunk is absent, and holds",
                                   "chunks are absent, and hold") +
                           " the fill value that the array's metadata states");
    }
    if (!options_.form && !options_.listing) KeepTree();
    return std::move(out_);
  }

 private:
  // The output is safetensors files, which store only a flat list of tensors.
  // Records the rest of the tree in their metadata, such as lists, strings and
  // empty nodes, so that the tree can be restored later (shards_index.h).
  void KeepTree() {
    std::string record = TreeRecordText(out_.tensors, out_.leaves);
    out_.leaves.clear();
    if (record.empty()) return;
    out_.metadata.emplace_back(kTreeRecordKey, std::move(record));
  }

  bool Selected(const std::string& name) const {
    return !options_.select || options_.select(name);
  }

  void Refuse(const Code& code, std::string message, std::string help) {
    findings_.Add(code, {MakeSource(out_.path, {})}, std::move(message),
                  std::move(help));
  }

  // Returns whether the leaf, a value that is not an array, is written. The
  // output format must be able to store the leaf, and `arrays_only` must not
  // exclude it. Safetensors files store leaves in their metadata.
  bool IsWritten(const stored::Leaf& leaf) const {
    if (options_.arrays_only && leaf.kind == stored::Leaf::Kind::kNumber) {
      return false;
    }
    if (options_.form) return stored::IsWritten(leaf, *options_.form);
    return leaf.kind == stored::Leaf::Kind::kEmpty ||
           (leaf.kind == stored::Leaf::Kind::kString && !options_.arrays_only);
  }

  // Returns the leaf (a value that is not an array) as the output stores it.
  // DCP stores strings, numbers and empty nodes as pickles. The other formats
  // store them as plain values.
  stored::Leaf Unpickled(const stored::Leaf& leaf) const {
    const bool pickled = leaf.kind == stored::Leaf::Kind::kOpaque &&
                         options_.form != stored::WriteForm::kDcp &&
                         (options_.form || !options_.arrays_only);
    auto plain = pickled ? stored::PlainValueOf(leaf) : std::nullopt;
    if (plain && IsWritten(*plain)) return std::move(*plain);
    return leaf;
  }

  // Collects the leaves (values that are not arrays) to write. Reports leaves
  // that the output cannot store, unless `arrays_only` is set. Empty nodes,
  // such as `None`, are not reported, because they have no value.
  void CheckLeaves() {
    for (const stored::Leaf& listed : tree_->leaves) {
      if (!Selected(listed.name)) continue;
      stored::Leaf leaf = Unpickled(listed);
      if (IsWritten(leaf)) {
        out_.leaves.push_back(std::move(leaf));
      } else if (leaf.kind != stored::Leaf::Kind::kEmpty) {
        ++left_out_;
        if (!options_.arrays_only && !findings_.Full()) RefuseLeaf(leaf);
      }
    }
  }

  void RefuseLeaf(const stored::Leaf& leaf) {
    std::string message = ShortQuote(leaf.name) + " is a ";
    message += leaf.kind == stored::Leaf::Kind::kString ? "string" : leaf.text;
    if (!options_.form) {
      Refuse(code::kInexpressible,
             message + ", which a safetensors file cannot hold",
             "--arrays-only leaves out what is not an array");
    } else if (*options_.form == stored::WriteForm::kDcp) {
      Refuse(code::kInexpressible,
             message + ", whose place in the checkpoint is not recorded",
             "--arrays-only leaves out what is not an array");
    } else {
      Refuse(code::kInexpressible, message + ", which orbax cannot restore",
             "--arrays-only leaves out what is not an array, and --as dcp "
             "copies it");
    }
  }

  void ListLeaves() {
    for (const stored::Leaf& leaf : tree_->leaves) {
      std::string what = leaf.text;
      if (leaf.kind == stored::Leaf::Kind::kString) what = "string";
      if (leaf.kind == stored::Leaf::Kind::kNumber) what = "number";
      out_.others.push_back({leaf.name, std::move(what)});
    }
  }

  // Lists an array whose elements have no data type or cannot be read; returns
  // whether it is one.
  bool ListOther(const stored::Array& array) {
    if (array.dtype && array.unreadable.empty()) return false;
    AddOther(array, array.unreadable);
    return true;
  }

  void AddOther(const stored::Array& array, const std::string& why) {
    out_.others.push_back(
        {array.name,
         "array " + ShapeText(array.shape) + " of " +
             (array.dtype ? std::string(DtypeName(*array.dtype))
                          : std::string("a data type of another library")) +
             (why.empty() ? "" : ", not readable: ") + why});
  }

  void NoteLeaves() {
    if (left_out_ > 0 && options_.arrays_only) {
      out_.notes.push_back(Counted(left_out_, "value that is not an array is",
                                   "values that are not arrays are") +
                           " left out");
    }
    const auto copied = std::count_if(
        out_.leaves.begin(), out_.leaves.end(), [](const stored::Leaf& leaf) {
          return leaf.kind == stored::Leaf::Kind::kOpaque;
        });
    if (copied == 0) return;
    out_.notes.push_back(
        Counted(copied, "pickled value is", "pickled values are") +
        " copied without being read");
  }

  void CheckArray(const stored::Array& array) {
    if (findings_.Full()) return;
    const std::string shown = ShortQuote(array.name);
    if (!array.unreadable.empty()) {
      Refuse(code::kInexpressible, array.unreadable, std::string(kSelectHelp));
    } else if (!array.dtype ||
               (!options_.form &&
                DtypeBits(*array.dtype) != 8 * array.element_bytes)) {
      Refuse(code::kDtype,
             "the array " + shown + " has the data type " +
                 (array.dtype ? std::string(DtypeName(*array.dtype))
                              : std::string("of another library")) +
                 (array.dtype && IsPackedInFiles(*array.dtype)
                      ? ", which shardc does not pack as safetensors does"
                      : ", which safetensors does not have"),
             std::string(kSelectHelp));
    } else if ((!options_.form && array.name == "__metadata__") ||
               !names_.insert(array.name).second) {
      Refuse(code::kName,
             "the name " + shown +
                 (array.name == "__metadata__"
                      ? " is reserved in safetensors files"
                      : " belongs to two arrays of the checkpoint"),
             "rename the array and save the checkpoint again");
    } else if (ChunkMemory(array) > memory_bytes_) {
      Refuse(
          code::kLimit,
          "copying a chunk of the array " + shown + " takes " +
              BytesText(ChunkMemory(array)) + " of memory, more than " +
              (options_.memory_bytes ? "--buffer "
                                     : "half of the free memory, ") +
              BytesText(memory_bytes_),
          "give --buffer " + std::to_string(ChunkMemory(array)) +
              (options_.memory_bytes ? ", or leave the option out"
                                     : ", or use a machine with more memory"));
    }
  }

  // Adds a file of the tree and returns its index, or nullopt after a finding.
  std::optional<uint32_t> FileOf(const std::string& path) {
    const auto [known, is_new] =
        files_.try_emplace(path, static_cast<uint32_t>(out_.files.size()));
    if (!is_new) return known->second;
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) {
      Refuse(code::kUnreadable, "`" + path + "` cannot be read",
             "copy the checkpoint again");
      return std::nullopt;
    }
    SourceFile file;
    file.path = path;
    file.size = status.st_size;
    file.modified_ns = ModifiedNs(status);
    file.changed_ns = ChangedNs(status);
    out_.files.push_back(std::move(file));
    return known->second;
  }

  void AddDescriptions(const std::string& path) {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::recursive_directory_iterator at(path, error), end;
         !error && at != end; at.increment(error)) {
      if (IsDescription(at->path().filename().string()) &&
          at->is_regular_file(error)) {
        found.push_back(at->path().string());
      }
    }
    std::sort(found.begin(), found.end());
    for (const std::string& file : found) FileOf(file);
  }

  // Adds the file that stores the leaf's value. Returns false after a finding,
  // for example if the file is too short for the value.
  bool AddValue(const stored::Leaf& leaf) {
    const auto file = FileOf(leaf.place->file);
    if (!file) return false;
    const int64_t size = out_.files[*file].size;
    if (leaf.place->offset <= size - leaf.place->bytes) return true;
    Refuse(code::kOffsets,
           "`" + leaf.place->file + "` has " + CountText(size) +
               " bytes, too few for the " + CountText(leaf.place->bytes) +
               " bytes of " + ShortQuote(leaf.name) + " at byte " +
               CountText(leaf.place->offset),
           "the file is truncated: copy the checkpoint again");
    return false;
  }

  bool AddTensor(size_t index) {
    const stored::Array& array = tree_->arrays[index];
    PlacesDigest places;
    const int64_t chunks = array.Chunks();
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      Findings missing;
      const auto place = tree_->reader->Find(
          index, chunk, options_.listing ? missing : findings_);
      if (!place && options_.listing) {
        AddOther(array, missing.all().empty() ? std::string("not readable")
                                              : missing.all().front().message);
        return true;
      }
      if (!place) return false;
      if (place->file.empty() && place->bytes == 0) ++absent_;
      std::optional<uint32_t> file = 0;
      if (!place->file.empty()) file = FileOf(place->file);
      if (!file) return false;
      places.Add(*file);
      places.Add(place->offset);
      places.Add(place->bytes);
      for (const int64_t begin : array.BoxOf(chunk).offset) places.Add(begin);
    }
    StoredTensor tensor;
    tensor.name = array.name;
    tensor.shape = array.shape;
    tensor.dtype = *array.dtype;
    tensor.array = index;
    tensor.places = places.Take();
    tensor.in_tree = {array.path, array.in_sequence, array.random_key};
    out_.tensors.push_back(std::move(tensor));
    return true;
  }

  const InputOptions& options_;
  int64_t memory_bytes_;  // the limit on the memory that a chunk may need
  Findings& findings_;
  std::shared_ptr<const stored::Tree> tree_;
  Stored out_;
  // Number of leaves (values that are not arrays) that are not written. Empty
  // nodes are not counted.
  int64_t left_out_ = 0;
  // The number of chunks that the checkpoint omits. All elements of an omitted
  // chunk have the fill value that the array's metadata states.
  int64_t absent_ = 0;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, uint32_t> files_;
};

// If the output is a tree (`options.form`), restores the tree that an earlier
// conversion recorded in the metadata of safetensors files: the path of each
// tensor, and the leaves (values that are not tensors). Keeps only selected
// leaves and, with `arrays_only`, no strings.
std::optional<Stored> InItsTree(std::optional<Stored> stored,
                                const InputOptions& options,
                                Findings& findings) {
  if (!stored || !options.form) return stored;
  if (!ReadTreeRecord(*stored, findings)) return std::nullopt;
  std::erase_if(stored->leaves, [&](const stored::Leaf& leaf) {
    return (options.select && !options.select(leaf.name)) ||
           (options.arrays_only && leaf.kind == stored::Leaf::Kind::kString);
  });
  return stored;
}

}  // namespace

std::optional<Stored> ReadStoredTree(const std::string& path,
                                     const InputOptions& options,
                                     Findings& findings) {
  return TreeInput(options, findings).Read(path);
}

std::optional<Stored> ReadInput(const std::string& path,
                                const InputOptions& options,
                                Findings& findings) {
  const auto folder = stored::ReadFolder(path);
  if (folder && folder->Has(kShardsName)) {
    return InItsTree(ReadStoredPieces(path, findings), options, findings);
  }
  return ReadFullInput(path, options, findings);
}

std::optional<Stored> ReadFullInput(const std::string& path,
                                    const InputOptions& options,
                                    Findings& findings) {
  if (stored::IsTree(path)) return ReadStoredTree(path, options, findings);
  return InItsTree(ReadStored(path, findings), options, findings);
}

}  // namespace shardc
