// Reads the chunks of zarr arrays. A chunk's number determines its place in the
// array's grid, and the place determines a key of the store. Without inner
// chunks, the value of this key is the chunk. With inner chunks, the value is a
// shard that contains several of them. The shard's index has an offset and a
// length for each inner chunk in row-major order:
//
//   shape [7, 6], shards of [4, 4], inner chunks of [2, 2] in a grid of [4, 3]
//   Chunk 5 is at (1, 2) in this grid. It is in shard (0, 1), key `c/0/1`, at
//   (1, 0) inside the shard, so entry 2 of the shard's index states its place.
#include "stored/zarr_tree.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "source/input_file.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "stored/checksum.h"
#include "stored/codecs.h"
#include "stored/ocdbt.h"
#include "stored/store.h"
#include "stored/tree.h"
#include "stored/zarr.h"

namespace shardc::stored {
namespace {

constexpr int64_t kMetadataLimitBytes = int64_t{1} << 20;
// The limit on the bytes of an absent chunk. Such a chunk is filled with the
// fill value, so it needs memory although no file has bytes for it.
constexpr int64_t kFillLimitBytes = int64_t{1} << 30;
constexpr int64_t kEntryBytes = 16;
constexpr uint64_t kNoChunk = UINT64_MAX;

}  // namespace

class ZarrTree::Chunks : public ChunkReader {
 public:
  struct Member {
    std::string key;
    ZarrArray zarr;
  };

  Chunks(std::string root, std::shared_ptr<const Store> store,
         AbsentChunks absent)
      : root_(std::move(root)), store_(std::move(store)), absent_(absent) {}

  void Add(Member member) { members_.push_back(std::move(member)); }

  std::optional<std::string> Read(size_t array, int64_t chunk,
                                  Findings& findings) const override {
    const Member& member = members_[array];
    const ZarrArray& zarr = member.zarr;
    const auto part = Locate(member, chunk, findings);
    if (!part) return std::nullopt;
    const int64_t elements = FullBox(zarr.chunk).Elements();
    const int64_t bytes = elements * zarr.element_bytes;
    if (bytes > kValueLimitBytes) {
      Refuse(member, *part, code::kLimit,
             "decodes to " + BytesText(bytes) + ", more than " +
                 BytesText(kValueLimitBytes),
             findings);
      return std::nullopt;
    }
    if (part->absent) return Filled(member, *part, elements, findings);
    if (zarr.codecs.empty() && part->bytes != bytes) {
      Refuse(member, *part, code::kSize,
             "has " + CountText(part->bytes) + " bytes, and " +
                 CountText(bytes) + " are expected",
             findings);
      return std::nullopt;
    }
    auto stored = ReadValue(part->value, part->offset, part->bytes, findings);
    if (!stored) return std::nullopt;
    std::string why;
    auto out = Decode(std::move(*stored), zarr.codecs, bytes, &why);
    if (!out) {
      Refuse(member, *part, code::kSize, "cannot be decoded: " + why, findings);
    }
    return out;
  }

  std::optional<ChunkPlace> Find(size_t array, int64_t chunk,
                                 Findings& findings) const override {
    const Member& member = members_[array];
    const auto part = Locate(member, chunk, findings);
    if (!part) return std::nullopt;
    ChunkPlace out;
    out.file = part->value.file;
    out.offset = part->value.offset + part->offset;
    out.bytes = part->bytes;
    out.raw = member.zarr.codecs.empty() && !part->absent &&
              !part->value.file.empty();
    return out;
  }

 private:
  // The place of a chunk: a range of bytes in a value of the store.
  struct Part {
    Value value;
    std::string key;
    int64_t offset = 0;
    int64_t bytes = 0;
    bool absent = false;
  };
  // The index of one shard. `entries` has the offset and the length of each
  // inner chunk.
  struct Index {
    std::string key;
    std::string entries;
  };

  void Refuse(const Member& member, const Part& part, const Code& code,
              const std::string& what, Findings& findings) const {
    const std::string& file = part.value.file;
    findings.Add(code, {MakeSource(file.empty() ? root_ : file, {})},
                 "the chunk " + ShortQuote(part.key) + " of " +
                     ShortQuote(member.key) + ", at byte " +
                     CountText(part.value.offset + part.offset) + ", " + what,
                 "copy or save the checkpoint again");
  }

  std::optional<Part> Locate(const Member& member, int64_t chunk,
                             Findings& findings) const {
    const ZarrArray& zarr = member.zarr;
    const size_t rank = zarr.shape.size();
    std::vector<int64_t> place(rank);
    int64_t entry = 0, weight = 1;
    for (size_t dim = rank; dim > 0;) {
      --dim;
      const int64_t count = CeilDiv(zarr.shape[dim], zarr.chunk[dim]);
      const int64_t inner = zarr.outer[dim] / zarr.chunk[dim];
      const int64_t at = chunk % count;
      chunk /= count;
      place[dim] = at / inner;
      entry += at % inner * weight;
      weight *= inner;
    }
    Part out;
    out.key = member.key.empty() ? "" : member.key + "/";
    out.key += zarr.KeyOf(place);
    auto value = store_->Find(out.key, findings);
    if (!value) return std::nullopt;
    if (!value->found && absent_ == AbsentChunks::kFilled) {
      out.absent = true;
      return out;
    }
    if (!value->found) {
      findings.Add(code::kMissing, {MakeSource(root_, {})},
                   "the chunk " + ShortQuote(out.key) + " of " +
                       ShortQuote(member.key) + " is missing",
                   "copy or save the checkpoint again");
      return std::nullopt;
    }
    out.value = std::move(*value);
    out.bytes = out.value.bytes;
    if (!zarr.indexed) return out;
    if (!LocateInner(member, entry, weight, out, findings)) {
      return std::nullopt;
    }
    return out;
  }

  bool LocateInner(const Member& member, int64_t entry, int64_t count,
                   Part& part, Findings& findings) const {
    const auto index = IndexOf(member, count, part, findings);
    if (index == nullptr) return false;
    const std::string_view bytes =
        std::string_view(index->entries)
            .substr(AsIndex(entry * kEntryBytes), AsIndex(kEntryBytes));
    const uint64_t offset = LittleEndian(bytes.substr(0, 8));
    const uint64_t length = LittleEndian(bytes.substr(8));
    if (offset == kNoChunk && length == kNoChunk) {
      part.absent = true;
      part.bytes = 0;
      return true;
    }
    const auto size = static_cast<uint64_t>(part.value.bytes);
    if (offset > size || length > size - offset) {
      Refuse(member, part, code::kOffsets,
             "has an inner chunk of " + std::to_string(length) +
                 " bytes at its byte " + std::to_string(offset) +
                 ", beyond its end",
             findings);
      return false;
    }
    part.offset = static_cast<int64_t>(offset);
    part.bytes = static_cast<int64_t>(length);
    return true;
  }

  // Returns the index of a shard; null after a finding. The last index is kept
  // in memory, because the chunks of a shard are usually read one after
  // another.
  std::shared_ptr<const Index> IndexOf(const Member& member, int64_t count,
                                       const Part& part,
                                       Findings& findings) const {
    {
      const std::scoped_lock lock(mutex_);
      if (last_ != nullptr && last_->key == part.key) return last_;
    }
    const ZarrArray& zarr = member.zarr;
    const int64_t bytes = count * kEntryBytes +
                          (zarr.index_has_checksum ? int64_t{kCrc32cBytes} : 0);
    if (bytes > part.value.bytes) {
      Refuse(member, part, code::kSize,
             "has " + CountText(part.value.bytes) +
                 " bytes, too few for its index of " + CountText(bytes),
             findings);
      return nullptr;
    }
    auto stored = ReadValue(part.value,
                            zarr.index_at_start ? 0 : part.value.bytes - bytes,
                            bytes, findings);
    if (!stored) return nullptr;
    std::string why;
    std::vector<Codec> codecs;
    if (zarr.index_has_checksum) codecs.push_back(Codec::kCrc32c);
    auto entries =
        Decode(std::move(*stored), codecs, count * kEntryBytes, &why);
    if (!entries) {
      Refuse(member, part, code::kSize,
             "has an index that cannot be read: " + why, findings);
      return nullptr;
    }
    auto index =
        std::make_shared<const Index>(Index{part.key, std::move(*entries)});
    const std::scoped_lock lock(mutex_);
    last_ = index;
    return index;
  }

  std::optional<std::string> Filled(const Member& member, const Part& part,
                                    int64_t elements,
                                    Findings& findings) const {
    const std::string& fill = member.zarr.fill;
    if (elements * member.zarr.element_bytes > kFillLimitBytes) {
      Refuse(member, part, code::kLimit,
             "is absent, and is larger than " + BytesText(kFillLimitBytes),
             findings);
      return std::nullopt;
    }
    if (fill.empty()) {
      Refuse(member, part, code::kInexpressible,
             "is absent, and shardc cannot write the array's fill value",
             findings);
      return std::nullopt;
    }
    std::string out;
    out.reserve(AsIndex(elements) * fill.size());
    for (int64_t i = 0; i < elements; ++i) out += fill;
    return out;
  }

  std::string root_;
  std::shared_ptr<const Store> store_;
  AbsentChunks absent_;
  std::vector<Member> members_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Index> last_;
};

ZarrTree::ZarrTree(std::string root, std::shared_ptr<const Store> store,
                   AbsentChunks absent)
    : root_(std::move(root)),
      store_(std::move(store)),
      chunks_(std::make_shared<Chunks>(root_, store_, absent)) {}

ZarrTree::~ZarrTree() = default;

std::shared_ptr<const ChunkReader> ZarrTree::Reader() const { return chunks_; }

std::optional<Array> ZarrTree::Add(const std::string& name, bool* found,
                                   Findings& findings) {
  *found = false;
  std::string key;
  std::optional<Value> value;
  for (const std::string_view file : {".zarray", "zarr.json"}) {
    key = name.empty() ? std::string(file) : name + "/" + std::string(file);
    value = store_->Find(key, findings);
    if (!value) return std::nullopt;
    if (value->found) break;
  }
  if (!value->found) return std::nullopt;
  const std::string shown = root_ + "/" + key;
  if (value->bytes > kMetadataLimitBytes) {
    findings.Add(code::kLimit, {MakeSource(shown, {})},
                 "zarr metadata of " + BytesText(value->bytes) +
                     " is larger than " + BytesText(kMetadataLimitBytes));
    return std::nullopt;
  }
  auto text = ReadValue(*value, 0, value->bytes, findings);
  if (!text) return std::nullopt;
  bool group = false;
  auto zarr = ParseZarr(MakeSource(shown, std::move(*text)), &group, findings);
  if (!zarr) return std::nullopt;
  *found = true;
  Array out;
  out.name = name;
  out.key = name;
  out.shape = zarr->shape;
  out.dtype = zarr->dtype;
  out.element_bytes = zarr->element_bytes;
  out.chunk = zarr->chunk;
  if (!zarr->unreadable.empty()) {
    out.unreadable = "the array " + ShortQuote(name) + " " + zarr->unreadable;
  }
  chunks_->Add({name, std::move(*zarr)});
  return out;
}

bool ZarrTree::AddAll(Tree& tree, Findings& findings) {
  const auto keys = store_->MetadataKeys(findings);
  if (!keys) return false;
  const size_t before = findings.errors();
  for (const std::string& key : *keys) {
    const size_t slash = key.rfind('/');
    const std::string name =
        slash == std::string::npos ? "" : key.substr(0, slash);
    if (!tree.arrays.empty() && tree.arrays.back().key == name) continue;
    if (!IsUtf8(name)) {
      findings.Add(
          code::kEncoding, {MakeSource(root_, {})},
          "the name of an array, " + ShortQuote(name) + ", is not UTF-8");
      return false;
    }
    bool found = false;
    auto array = Add(name, &found, findings);
    if (findings.errors() > before) return false;
    if (!array) continue;  // the metadata describes a group, not an array
    array->path = {name};
    if (name.empty()) array->name = ".";
    tree.arrays.push_back(std::move(*array));
  }
  tree.reader = Reader();
  return true;
}

// Opens zarr arrays that are in an OCDBT database or in nested folders, if no
// file describes a tree of the arrays. The arrays are named by their keys.
//
//   w/.zarray, blocks/0/k/zarr.json  ->  `blocks/0/k`, `w`

namespace {

// The largest number of names that are examined in the search for an array's
// metadata.
constexpr size_t kNamesTried = 1000;
constexpr int kDepthTried = 8;

std::optional<Tree> OpenAll(const Folder& folder, std::string_view form,
                            std::shared_ptr<const Store> store,
                            Findings& findings) {
  Tree tree;
  tree.path = folder.path;
  tree.form = form;
  // In zarr, a chunk without a value in the store consists of fill values. In
  // these folders nothing shows whether such a chunk was lost, so its absence
  // is an error.
  ZarrTree zarr(folder.path, std::move(store), AbsentChunks::kLost);
  if (!zarr.AddAll(tree, findings)) return std::nullopt;
  return tree;
}

bool IsDatabase(const Folder& folder) { return folder.Has(kOcdbtManifest); }

std::optional<Tree> OpenDatabase(const Folder& folder, Findings& findings) {
  auto store = OcdbtStore::Open(folder.path, {""}, findings);
  if (store == nullptr) return std::nullopt;
  return OpenAll(folder, "OCDBT", std::move(store), findings);
}

// Returns whether any folder inside this folder has zarr metadata. The search
// examines at most kNamesTried names, and does not enter deeply nested folders.
bool HoldsZarr(const Folder& folder, int depth, size_t& tried) {
  for (const std::string& name : folder.names) {
    if (++tried > kNamesTried) return false;
    const std::string path = folder.PathOf(name);
    std::error_code error;
    // Links are not followed, because a link could refer to a parent folder.
    const auto status = std::filesystem::symlink_status(path, error);
    if (status.type() != std::filesystem::file_type::directory) continue;
    const auto below = ReadFolder(path);
    if (!below) continue;
    if (below->Has(".zarray") || below->Has("zarr.json")) return true;
    if (depth < kDepthTried && HoldsZarr(*below, depth + 1, tried)) return true;
  }
  return false;
}

bool IsZarr(const Folder& folder) {
  if (folder.Has(".zarray") || folder.Has("zarr.json") ||
      folder.Has(".zgroup")) {
    return true;
  }
  // A folder that contains safetensors files is opened as safetensors files,
  // even if it also contains zarr folders.
  if (HasEnding(folder, ".safetensors")) return false;
  size_t tried = 0;
  return HoldsZarr(folder, 0, tried);
}

std::optional<Tree> OpenZarr(const Folder& folder, Findings& findings) {
  return OpenAll(folder, "zarr", std::make_shared<FolderStore>(folder.path),
                 findings);
}

}  // namespace

extern const Format kOcdbtDatabase;
extern const Format kZarrFolder;
const Format kOcdbtDatabase{"OCDBT", IsDatabase, OpenDatabase};
const Format kZarrFolder{"zarr", IsZarr, OpenZarr};

}  // namespace shardc::stored
