// Reads zarr arrays that no file describes as a tree: those of an OCDBT
// database or of nested folders. Arrays are named by their keys.
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

// How many names of a folder are looked into for an array's metadata.
constexpr size_t kNamesTried = 1000;

std::optional<Tree> OpenAll(const Folder& folder, std::string_view form,
                            std::shared_ptr<const Store> store,
                            Findings& findings) {
  Tree tree;
  tree.path = folder.path;
  tree.form = form;
  // zarr takes the fill value for a chunk that is absent, but nothing shows
  // that it was not lost.
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

bool IsZarr(const Folder& folder) {
  if (folder.Has(".zarray") || folder.Has("zarr.json") ||
      folder.Has(".zgroup")) {
    return true;
  }
  // A set of safetensors files stays one, whatever folders are in it.
  if (HasEnding(folder, ".safetensors")) return false;
  size_t tried = 0;
  for (const std::string& name : folder.names) {
    if (++tried > kNamesTried) break;
    const std::filesystem::path path = folder.PathOf(name);
    std::error_code error;
    if (std::filesystem::exists(path / ".zarray", error) ||
        std::filesystem::exists(path / "zarr.json", error)) {
      return true;
    }
  }
  return false;
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
