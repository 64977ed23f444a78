// Reads boxes of arrays. ReadBox visits the chunks that overlap a box and
// copies the overlap with each chunk. In a regular grid, these chunks are found
// by division. If the chunks are no grid, every chunk is compared with the box.
//
//   array [10, 7], chunks of [4, 4] in a grid of 3 x 2, box [3:5, 0:7]
//   The box overlaps chunks 0 to 3. Chunk 1 is [0:4, 4:8], where column 7 is
//   padding. Its elements [3:4, 4:7] are copied.
#include "stored/tree.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "model/name.h"
#include "source/file.h"
#include "source/size.h"
#include "stored/box.h"

namespace shardc::stored {

Region StoredRegionOf(const Array& array, int64_t chunk) {
  const Box box = array.BoxOf(chunk);
  return array.pieces.empty() ? RegionOf({box.offset, array.chunk})
                              : RegionOf(box);
}

int64_t CopyOfChunk(const Array& array, int64_t chunk, const char* bytes,
                    const Region& held, char* out) {
  const Region part = Region::Intersect(RegionOf(array.BoxOf(chunk)), held);
  CopyRegion(part, StoredRegionOf(array, chunk), bytes, held, out,
             array.element_bytes);
  return part.Units();
}

bool ForEachChunk(const Array& array, const Box& box,
                  const std::function<bool(int64_t chunk)>& visit) {
  if (!array.pieces.empty()) {
    const Region wanted = RegionOf(box);
    for (size_t i = 0; i < array.pieces.size(); ++i) {
      if (!Region::Overlap(RegionOf(array.pieces[i]), wanted)) continue;
      if (!visit(static_cast<int64_t>(i))) return false;
    }
    return true;
  }
  const size_t rank = array.shape.size();
  Shape first(rank), last(rank), count(rank);
  for (size_t i = 0; i < rank; ++i) {
    count[i] = CeilDiv(array.shape[i], array.chunk[i]);
    first[i] = box.offset[i] / array.chunk[i];
    last[i] = (box.offset[i] + box.shape[i] - 1) / array.chunk[i];
  }
  Shape at = first;
  for (;;) {
    int64_t number = 0;
    for (size_t i = 0; i < rank; ++i) number = number * count[i] + at[i];
    if (!visit(number)) return false;
    size_t dim = rank;
    while (dim > 0 && at[dim - 1] == last[dim - 1]) {
      at[dim - 1] = first[dim - 1];
      --dim;
    }
    if (dim == 0) return true;
    ++at[dim - 1];
  }
}

int64_t Array::Chunks() const {
  if (!pieces.empty()) return static_cast<int64_t>(pieces.size());
  int64_t out = 1;
  for (size_t i = 0; i < shape.size(); ++i) out *= CeilDiv(shape[i], chunk[i]);
  return out;
}

Box Array::BoxOf(int64_t chunk_index) const {
  if (!pieces.empty()) return pieces[AsIndex(chunk_index)];
  Box box{Shape(shape.size(), 0), shape};
  for (size_t dim = shape.size(); dim > 0;) {
    --dim;
    const int64_t count = CeilDiv(shape[dim], chunk[dim]);
    box.offset[dim] = chunk_index % count * chunk[dim];
    box.shape[dim] = std::min(chunk[dim], shape[dim] - box.offset[dim]);
    chunk_index /= count;
  }
  return box;
}

bool Folder::Has(std::string_view name) const {
  return std::binary_search(names.begin(), names.end(), name);
}

bool HasEnding(const Folder& folder, std::string_view ending) {
  return std::any_of(
      folder.names.begin(), folder.names.end(),
      [&](const std::string& name) { return name.ends_with(ending); });
}

std::string Folder::PathOf(std::string_view name) const {
  return PathIn(path, name);
}

std::optional<Folder> ReadFolder(const std::string& path) {
  std::error_code error;
  auto names = NamesIn(path, error);
  if (!names) return std::nullopt;
  return Folder{path, std::move(*names)};
}

const Format* FormatOf(const Folder& folder) {
  for (const Format* format : Formats()) {
    if (format->detect(folder)) return format;
  }
  return nullptr;
}

namespace {

constexpr std::string_view kUnfinished[] = {".orbax-checkpoint-tmp",
                                            ".dcp-tmp-shardc"};

// Returns the part of a folder's name that marks the folder as unfinished, or
// an empty text if the name has no such part.
std::string_view UnfinishedPart(std::string_view name) {
  for (const std::string_view part : kUnfinished) {
    if (name.find(part) != std::string_view::npos) return part;
  }
  return {};
}

// Adds the finding `missing` and returns true if the last component of the path
// is the name of an unfinished checkpoint.
bool RefuseUnfinished(const std::string& path, Findings& findings) {
  std::error_code error;
  auto full = std::filesystem::absolute(path, error).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  const std::string_view part = UnfinishedPart(full.filename().string());
  if (part.empty()) return false;
  findings.Add(code::kMissing, {MakeSource(path, {})},
               "the folder's name contains `" + std::string(part) +
                   "`: the save of this checkpoint has not finished",
               "use an earlier checkpoint, or save again");
  return true;
}

}  // namespace

bool IsUnfinishedName(std::string_view name) {
  return !UnfinishedPart(name).empty();
}

std::optional<Tree> OpenAs(const Format& format, const Folder& folder,
                           Findings& findings) {
  if (RefuseUnfinished(folder.path, findings)) return std::nullopt;
  auto tree = format.open(folder, findings);
  if (!tree) return std::nullopt;
  for (const Array& array : tree->arrays) {
    std::string fault = ParameterNameFault(array.name);
    if (fault.empty()) continue;
    findings.Add(code::kName, {MakeSource(folder.path, {})}, std::move(fault));
    return std::nullopt;
  }
  return tree;
}

std::optional<Tree> OpenTree(const std::string& path, Findings& findings) {
  const auto folder = ReadFolder(path);
  if (!folder) {
    findings.Add(code::kUnreadable, {MakeSource(path, {})},
                 "the folder cannot be read");
    return std::nullopt;
  }
  if (const Format* format = FormatOf(*folder)) {
    return OpenAs(*format, *folder, findings);
  }
  findings.Add(code::kMissing, {MakeSource(path, {})},
               "the folder holds no checkpoint of a known format",
               "give the folder of an orbax, zarr or PyTorch DCP checkpoint");
  return std::nullopt;
}

std::string JoinKeys(std::span<const std::string> keys, char separator) {
  std::string out;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) out += separator;
    out += keys[i];
  }
  return out;
}

std::string StorageName(std::span<const std::string> path) {
  return JoinKeys(path, '.');
}

bool IsTree(const std::string& path) {
  const auto folder = ReadFolder(path);
  return folder && FormatOf(*folder) != nullptr;
}

bool ReadBox(const Tree& tree, size_t array, const Box& box, char* out,
             Findings& findings) {
  const Array& stored = tree.arrays[array];
  if (!stored.unreadable.empty()) {
    findings.Add(code::kInexpressible, {MakeSource(tree.path, {})},
                 stored.unreadable);
    return false;
  }
  if (box.Elements() == 0) return true;
  const Region wanted = RegionOf(box);
  return ForEachChunk(stored, box, [&](int64_t chunk) {
    const auto bytes = tree.reader->Read(array, chunk, findings);
    if (!bytes) return false;
    CopyOfChunk(stored, chunk, bytes->data(), wanted, out);
    return true;
  });
}

#define SHARDC_STORED_FORMAT(name) extern const Format name;
#include "stored/table.h"
#undef SHARDC_STORED_FORMAT

std::span<const Format* const> Formats() {
  static const std::vector<const Format*> kFormats = {
#define SHARDC_STORED_FORMAT(name) &name,
#include "stored/table.h"
#undef SHARDC_STORED_FORMAT
  };
  return kFormats;
}

}  // namespace shardc::stored
