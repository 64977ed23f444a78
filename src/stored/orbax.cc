// Opens a tree that orbax saved. `_METADATA` lists the paths of arrays, and
// `_sharding` their shardings. The values are zarr arrays in OCDBT databases or
// in folders. The name of an array in the storage is its path joined by `.`.
// Two paths may therefore have the same name, for which orbax keeps only one
// value:
//
//   {'a.b': x, 'a': {'b': y}}  ->  both stored as `a.b`: refused
//
// If a save by several processes was not finished, each process has its own
// database, `ocdbt.process_0` and so on. Together the databases are the
// checkpoint.
#include "stored/orbax.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "source/directory.h"
#include "source/wording.h"
#include "stored/format.h"
#include "stored/ocdbt.h"
#include "stored/orbax_metadata.h"
#include "stored/store.h"
#include "stored/zarr_tree.h"

namespace shardc::stored {
namespace {

constexpr std::string_view kPartStart = "ocdbt.process_";
constexpr std::string_view kArrayMetadatas = "array_metadatas";

// Returns the name that an array or a leaf has in manifests and messages.
std::string NameOf(const std::vector<std::string>& path) {
  std::string out = JoinKeys(path, '/');
  return out.empty() ? "." : out;
}

std::vector<std::string> PartsOf(const Folder& folder) {
  std::vector<std::string> out;
  for (const std::string& name : folder.names) {
    if (name.starts_with(kPartStart)) out.push_back(name);
  }
  return out;
}

class OrbaxTree {
 public:
  OrbaxTree(const Folder& folder, Findings& findings)
      : folder_(folder), findings_(findings) {
    tree_.path = folder.path;
  }

  std::optional<Tree> Open() {
    metadata_ = ReadOrbaxMetadata(folder_.PathOf(kOrbaxMetadata), findings_);
    if (!metadata_) return std::nullopt;
    const auto store = OpenStore();
    if (store == nullptr) return std::nullopt;
    // An absent chunk is an error if orbax stores every chunk, or if the save
    // was not finished: a process may then have written no chunks. Otherwise an
    // absent chunk consists of fill values.
    const bool all_stored =
        metadata_->stores_fill_values ||
        (!folder_.Has(kOcdbtManifest) && !PartsOf(folder_).empty());
    ZarrTree zarr(folder_.path, store,
                  all_stored ? AbsentChunks::kLost : AbsentChunks::kFilled);
    if (!metadata_->has_tree) {
      tree_.notes.push_back(
          "`_METADATA` has no `tree_metadata`: arrays are named by their keys");
      if (!zarr.AddAll(tree_, findings_)) return std::nullopt;
    } else if (!AddLeaves(zarr)) {
      return std::nullopt;
    }
    if (!AddShardings()) return std::nullopt;
    AddRandomKeys();
    tree_.reader = zarr.Reader();
    return std::move(tree_);
  }

 private:
  Place Here() const { return {MakeSource(folder_.path, {})}; }

  std::shared_ptr<const Store> OpenStore() {
    const bool database = folder_.Has(kOcdbtManifest);
    const auto parts = PartsOf(folder_);
    const bool ocdbt = database || !parts.empty();
    if (metadata_->use_ocdbt && *metadata_->use_ocdbt != ocdbt) {
      tree_.notes.push_back(std::string("`_METADATA` states `use_ocdbt` ") +
                            (ocdbt ? "false, but there is a `manifest.ocdbt`"
                                   : "true, but there is no `manifest.ocdbt`") +
                            "; orbax fails to restore such a checkpoint");
    }
    if (database) {
      tree_.form = "orbax (OCDBT)";
      return OcdbtStore::Open(folder_.path, {""}, findings_);
    }
    if (parts.empty()) {
      tree_.form = "orbax (zarr folders)";
      return std::make_shared<FolderStore>(folder_.path);
    }
    tree_.form = "orbax (OCDBT, parts of processes)";
    if (RefuseMissingParts(parts)) return nullptr;
    tree_.notes.push_back(
        "the parts of " +
        Counted(static_cast<int64_t>(parts.size()), "process", "processes") +
        " were not merged, so the save has not finished; they are read "
        "together, and orbax cannot restore them");
    return OcdbtStore::Open(folder_.path, parts, findings_);
  }

  // Adds a finding and returns true if a database is missing. Each process that
  // has written a file of `array_metadatas` must have a database in the folder.
  bool RefuseMissingParts(const std::vector<std::string>& parts) {
    std::error_code error;
    const auto written = NamesIn(folder_.PathOf(kArrayMetadatas), error);
    for (const std::string& name : written.value_or(parts)) {
      constexpr std::string_view kProcess = "process_";
      if (!name.starts_with(kProcess)) continue;
      const std::string part = "ocdbt." + name;
      if (std::find(parts.begin(), parts.end(), part) != parts.end()) continue;
      findings_.Add(code::kMissing, Here(),
                    "the checkpoint has parts of several processes, and " +
                        ShortQuote(part) + " is missing",
                    "copy the folders of all processes");
      return true;
    }
    return false;
  }

  bool AddLeaves(ZarrTree& zarr) {
    for (const OrbaxLeaf& leaf : metadata_->leaves) {
      if (findings_.Full()) return false;
      const std::string name = NameOf(leaf.path);
      if (!CheckNames(leaf, name)) continue;
      if (leaf.empty) {
        tree_.leaves.push_back({name, Leaf::Kind::kEmpty, leaf.value_type,
                                leaf.path, leaf.in_sequence});
      } else if (leaf.value_type == "string") {
        AddString(leaf, name);
      } else {
        AddArray(leaf, name, zarr);
      }
    }
    return !findings_.HasErrors();
  }

  // Checks that no earlier leaf has the same name in manifests (the keys joined
  // by `/`) or in the storage (the keys joined by `.`). An empty node may share
  // its name in the storage, because nothing is stored for it. Returns false
  // after a finding.
  bool CheckNames(const OrbaxLeaf& leaf, const std::string& name) {
    const std::string key = StorageName(leaf.path);
    const auto [stored, new_key] = by_key_.try_emplace(key, &leaf);
    if (!new_key && !leaf.empty && !stored->second->empty) {
      findings_.Add(code::kDuplicateKey, Here(),
                    "the paths " + ShortQuote(NameOf(stored->second->path)) +
                        " and " + ShortQuote(name) +
                        " have the same name in the checkpoint, " +
                        ShortQuote(key) + ": orbax has kept one value for both",
                    "rename one of the keys and save again");
      return false;
    }
    const auto [shown, new_name] = by_name_.try_emplace(name, &leaf);
    if (!new_name) {
      findings_.Add(code::kDuplicateKey, Here(),
                    "two paths of the checkpoint are both named " +
                        ShortQuote(name) +
                        " in a manifest, since a key contains `/`",
                    "rename the key that contains `/`");
    }
    return new_name;
  }

  void AddString(const OrbaxLeaf& leaf, const std::string& name) {
    if (!strings_) {
      strings_.emplace();
      if (folder_.Has("_strings.json")) {
        auto read =
            ReadOrbaxStrings(folder_.PathOf("_strings.json"), findings_);
        if (read) strings_ = std::move(read);
      }
    }
    const auto text = strings_->find(StorageName(leaf.path));
    tree_.leaves.push_back({name, Leaf::Kind::kString,
                            text == strings_->end() ? "" : text->second,
                            leaf.path, leaf.in_sequence});
  }

  void AddArray(const OrbaxLeaf& leaf, const std::string& name,
                ZarrTree& zarr) {
    bool found = false;
    auto array = zarr.Add(StorageName(leaf.path), &found, findings_);
    if (array) {
      array->name = name;
      array->path = leaf.path;
      array->in_sequence = leaf.in_sequence;
      tree_.arrays.push_back(std::move(*array));
    } else if (!found && !findings_.HasErrors()) {
      findings_.Add(code::kTensorMissing, Here(),
                    "`_METADATA` lists " + ShortQuote(name) +
                        ", and the checkpoint holds no array " +
                        ShortQuote(StorageName(leaf.path)),
                    "copy or save the checkpoint again");
    }
  }

  bool AddShardings() {
    if (!folder_.Has("_sharding")) return true;
    auto shardings = ReadOrbaxShardings(folder_.PathOf("_sharding"), findings_);
    if (!shardings) return false;
    for (Array& array : tree_.arrays) {
      const auto found = shardings->find(array.key);
      if (found == shardings->end()) continue;
      if (found->second.spec.size() > array.shape.size()) {
        findings_.Add(code::kSpec, Here(),
                      "the sharding of " + ShortQuote(array.name) + ", " +
                          SpecText(found->second.spec) +
                          ", has more entries than its shape " +
                          ShapeText(array.shape));
        return false;
      }
      array.sharding = found->second;
    }
    return true;
  }

  // Marks the arrays that hold random keys of JAX. Each process has written a
  // list of the random keys that it holds. As in orbax, only the first list is
  // read.
  void AddRandomKeys() {
    std::error_code error;
    const std::string lists = folder_.PathOf(kArrayMetadatas);
    const auto names = NamesIn(lists, error);
    if (!names || names->empty()) return;
    Findings none;
    const auto keys = ReadOrbaxRandomKeys(PathIn(lists, names->front()), none);
    if (!keys) {
      tree_.notes.push_back(
          "`array_metadatas` cannot be read: random keys are arrays of their "
          "words");
      return;
    }
    for (Array& array : tree_.arrays) {
      const auto found = keys->find(array.key);
      if (found != keys->end()) array.random_key = found->second;
    }
  }

  const Folder& folder_;
  Findings& findings_;
  Tree tree_;
  std::optional<OrbaxMetadata> metadata_;
  std::optional<std::map<std::string, std::string>> strings_;
  std::map<std::string, const OrbaxLeaf*> by_key_;
  std::map<std::string, const OrbaxLeaf*> by_name_;
};

std::optional<Tree> OpenOrbaxTree(const Folder& folder, Findings& findings) {
  return OrbaxTree(folder, findings).Open();
}

}  // namespace

bool IsOrbaxTree(const Folder& folder) { return folder.Has(kOrbaxMetadata); }

extern const Format kOrbaxTree;
const Format kOrbaxTree{"orbax", IsOrbaxTree, OpenOrbaxTree};

}  // namespace shardc::stored
