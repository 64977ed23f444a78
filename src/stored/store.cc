// Reads a folder as a store, whose keys are the paths of the folder's files.
// Arrays are found by a search through the inner folders. The search does not
// enter folders inside an array's folder, because they contain only chunks. A
// `zarr.json` may also describe a group, whose folder contains arrays:
//
//   w/.zarray, w/0.0, blocks/0/k/zarr.json, blocks/0/k/c/0/0
//     ->  `blocks/0/k/zarr.json`, `w/.zarray`
#include "stored/store.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "source/file.h"
#include "source/input_file.h"
#include "source/json.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::stored {
namespace {

namespace fs = std::filesystem;

constexpr int kDepthLimit = 32;
constexpr size_t kFolderLimit = 1'000'000;
// The limit on the bytes of a group's metadata. It is large because a group may
// list the metadata of all arrays in it.
constexpr int64_t kGroupLimitBytes = int64_t{128} << 20;
constexpr std::string_view kGroupName = "zarr.json";
constexpr std::string_view kMetadataNames[] = {".zarray", kGroupName};

struct Walk {
  std::string root;
  std::vector<std::string> keys;
  size_t folders = 0;
};

// Returns whether the `zarr.json` at `path` describes a group. A file that
// cannot be read is treated as the metadata of an array, and is reported when
// the array is read.
bool IsGroup(const std::string& path) {
  Findings none;
  const SourceRef source = ReadSource(path, none, kGroupLimitBytes);
  const auto document =
      source == nullptr ? nullptr : JsonDocument::Parse(source, none);
  const auto type = document != nullptr && document->root().IsObject()
                        ? document->root().Find("node_type")
                        : std::nullopt;
  return type && type->IsString() && type->string() == "group";
}

// Adds the metadata keys of the folder `below`, a path relative to the root,
// and of all folders in it. Returns false after a finding.
bool AddKeys(Walk& walk, const std::string& below, int depth,
             Findings& findings) {
  const std::string folder =
      below.empty() ? walk.root : PathIn(walk.root, below);
  if (depth > kDepthLimit || ++walk.folders > kFolderLimit) {
    findings.Add(code::kLimit, {MakeSource(folder, {})},
                 "the checkpoint's folders are nested too deeply, or there are "
                 "too many of them");
    return false;
  }
  std::error_code error;
  const auto names = NamesIn(folder, error);
  if (!names) {
    findings.Add(code::kUnreadable, {MakeSource(folder, {})},
                 "cannot list `" + folder + "`: " + error.message());
    return false;
  }
  for (const std::string_view name : kMetadataNames) {
    if (!std::binary_search(names->begin(), names->end(), name)) continue;
    if (name == kGroupName && IsGroup(PathIn(folder, name))) continue;
    walk.keys.push_back(PathIn(below, name));
    return true;
  }
  for (const std::string& name : *names) {
    // Links are not followed, because a link could refer to a parent folder.
    const auto status = fs::symlink_status(PathIn(folder, name), error);
    if (status.type() != fs::file_type::directory) continue;
    if (!AddKeys(walk, PathIn(below, name), depth + 1, findings)) return false;
  }
  return true;
}

}  // namespace

bool IsMetadataKey(std::string_view key) {
  return IsAmong(AfterLast(key, '/'), kMetadataNames);
}

std::string_view PathFault(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.starts_with('/')) return "is absolute";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return "leads upwards";
    begin = end + 1;
  }
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return "holds control characters";
    }
  }
  return {};
}

bool IsInside(const std::string& folder, const std::string& path,
              Findings& findings) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error) return true;
  const fs::path root = fs::canonical(folder, error);
  if (!error &&
      std::mismatch(root.begin(), root.end(), file.begin(), file.end()).first ==
          root.end()) {
    return true;
  }
  findings.Add(code::kPath, {MakeSource(path, {})},
               "`" + path + "` is a link that leads out of `" + folder + "`",
               "name the folder that it leads to, or put the file there");
  return false;
}

std::optional<std::string> ReadValue(const Value& value, int64_t offset,
                                     int64_t bytes, Findings& findings) {
  if (value.file.empty()) {
    return std::string(value.held.substr(AsIndex(offset), AsIndex(bytes)));
  }
  if (bytes > kValueLimitBytes) {
    findings.Add(code::kLimit, {MakeSource(value.file, {})},
                 "a value of " + BytesText(bytes) + " at byte " +
                     CountText(value.offset) + " is larger than " +
                     BytesText(kValueLimitBytes));
    return std::nullopt;
  }
  const auto file = InputFile::Open(value.file, findings);
  if (!file) return std::nullopt;
  if (value.offset > file->size() || offset > file->size() - value.offset ||
      bytes > file->size() - value.offset - offset) {
    findings.Add(code::kOffsets, {MakeSource(value.file, {})},
                 "bytes " + CountText(value.offset + offset) + " to " +
                     CountText(value.offset + offset + bytes) +
                     " are needed, and the file ends at byte " +
                     CountText(file->size()),
                 "copy or save the checkpoint again");
    return std::nullopt;
  }
  std::string out(AsIndex(bytes), '\0');
  if (!file->ReadAt(value.offset + offset, out.data(), out.size(), findings)) {
    return std::nullopt;
  }
  return out;
}

std::optional<Value> FolderStore::Find(std::string_view key,
                                       Findings& findings) const {
  Value out;
  if (!PathFault(key).empty()) {
    findings.Add(
        code::kPath, {MakeSource(folder_, {})},
        "the name " + ShortQuote(key) + " " + std::string(PathFault(key)));
    return std::nullopt;
  }
  out.file = PathIn(folder_, key);
  std::error_code error;
  const auto status = fs::symlink_status(out.file, error);
  if (status.type() == fs::file_type::not_found) return Value{};
  if (!IsInside(folder_, out.file, findings)) return std::nullopt;
  const auto file = InputFile::Open(out.file, findings);
  if (!file) return std::nullopt;
  out.found = true;
  out.bytes = file->size();
  return out;
}

std::optional<std::vector<std::string>> FolderStore::MetadataKeys(
    Findings& findings) const {
  Walk walk{folder_, {}, 0};
  if (!AddKeys(walk, "", 0, findings)) return std::nullopt;
  std::sort(walk.keys.begin(), walk.keys.end());
  return std::move(walk.keys);
}

}  // namespace shardc::stored
