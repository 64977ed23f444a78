// Opens zarr arrays that are in an OCDBT database or in nested folders, if no
// file describes a tree of the arrays. The arrays are named by their keys.
//
//   w/.zarray, blocks/0/k/zarr.json  ->  `blocks/0/k`, `w`
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "stored/format.h"
#include "stored/ocdbt.h"
#include "stored/store.h"
#include "stored/zarr_tree.h"

namespace shardc::stored {
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
