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
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "source/file.h"
#include "source/json.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "stored/ocdbt.h"
#include "stored/store.h"
#include "stored/tree.h"
#include "stored/zarr.h"

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
      if (IsAmong(part, parts)) continue;
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

// Reads `_METADATA`, which has a member for each leaf. The path of a leaf is
// read from `key_metadata`. It cannot be read from the storage name, because a
// `.` in a key is not escaped in storage names:
//
//   {"tree_metadata": {"('a.b',)": {"key_metadata": [{"key": "a.b", ...}],
//    "value_metadata": {"value_type": "jax.Array", "write_shape": [2, 4]}}}}
//     ->  path [`a.b`]
//
// `write_shape` is not read, because it is the shape of one device's shard;
// shapes are in the zarr metadata. `_sharding` has a member for each array: the
// storage name in base64, and a JSON text that describes the sharding.

namespace {

constexpr int64_t kLimitBytes = int64_t{128} << 20;

std::unique_ptr<const JsonDocument> ParseMetadataFile(const std::string& path,
                                                      Findings& findings) {
  // Messages quote these files, so a link must not refer to a file outside the
  // folder.
  const auto folder = std::filesystem::path(path).parent_path().string();
  if (!IsInside(folder, path, findings)) return nullptr;
  const SourceRef source = ReadSource(path, findings, kLimitBytes);
  if (source == nullptr) return nullptr;
  auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr || document->root().IsObject()) return document;
  findings.Add(code::kSchema, {source}, "the file must hold a JSON object");
  return nullptr;
}

std::nullopt_t Refuse(const JsonValue& value, const std::string& what,
                      Findings& findings) {
  findings.Add(code::kSchema, value.place(), what);
  return std::nullopt;
}

// Returns the member if it exists and its value has this kind; nullopt
// otherwise.
std::optional<JsonValue> Member(const JsonValue& object, std::string_view name,
                                JsonKind kind) {
  if (!object.IsObject()) return std::nullopt;
  auto out = object.Find(name);
  return out && out->kind() == kind ? out : std::nullopt;
}

std::optional<OrbaxLeaf> ReadLeaf(const JsonMember& member,
                                  Findings& findings) {
  const auto keys = Member(member.value, "key_metadata", JsonKind::kArray);
  const auto value = Member(member.value, "value_metadata", JsonKind::kObject);
  if (!keys || !value) {
    return Refuse(member.value,
                  "the leaf " + ShortQuote(member.name()) +
                      " lacks `key_metadata` or `value_metadata`",
                  findings);
  }
  OrbaxLeaf out;
  for (const JsonValue& entry : keys->items()) {
    const auto key = Member(entry, "key", JsonKind::kString);
    if (!key) return Refuse(entry, "a step of a path lacks `key`", findings);
    out.path.emplace_back(key->string());
    constexpr int64_t kSequence = 1;
    const auto type = Member(entry, "key_type", JsonKind::kInteger);
    out.in_sequence.push_back(type && type->integer() == kSequence);
  }
  const auto type = Member(*value, "value_type", JsonKind::kString);
  if (type) out.value_type = type->string();
  const auto skip = Member(*value, "skip_deserialize", JsonKind::kBool);
  out.empty = skip && skip->boolean();
  return out;
}

// Reads the mesh axes of one dimension: null (no axis), a name, or a list of
// names.
std::optional<AxisGroup> ReadGroup(const JsonValue& value) {
  AxisGroup out;
  if (value.IsNull()) return out;
  if (value.IsString()) return AxisGroup{std::string(value.string())};
  if (!value.IsArray()) return std::nullopt;
  for (const JsonValue& name : value.items()) {
    if (!name.IsString()) return std::nullopt;
    out.emplace_back(name.string());
  }
  return out;
}

std::optional<Sharding> ReadNamed(const JsonValue& root) {
  const auto shape = Member(root, "shape", JsonKind::kArray);
  const auto names = Member(root, "axis_names", JsonKind::kArray);
  const auto spec = Member(root, "partition_spec", JsonKind::kArray);
  if (!shape || !names || !spec || shape->size() != names->size()) {
    return std::nullopt;
  }
  Sharding out;
  std::set<std::string> seen;
  for (const JsonValue& name : names->items()) {
    if (!name.IsString()) return std::nullopt;
    out.mesh.axes.push_back({std::string(name.string())});
    if (!seen.insert(out.mesh.axes.back().name).second) return std::nullopt;
  }
  size_t axis = 0;
  for (const JsonValue& size : shape->items()) {
    if (size.kind() != JsonKind::kInteger || size.integer() < 1) {
      return std::nullopt;
    }
    out.mesh.axes[axis++].size = size.integer();
    const auto devices = CheckedMul(out.mesh.devices, size.integer());
    if (!devices) return std::nullopt;
    out.mesh.devices = *devices;
  }
  for (const JsonValue& entry : spec->items()) {
    auto group = ReadGroup(entry);
    if (!group) return std::nullopt;
    for (const std::string& name : *group) {
      if (!seen.contains(name)) return std::nullopt;
    }
    out.spec.push_back(std::move(*group));
  }
  return out;
}

}  // namespace

std::optional<OrbaxMetadata> ReadOrbaxMetadata(const std::string& path,
                                               Findings& findings) {
  const auto document = ParseMetadataFile(path, findings);
  if (document == nullptr) return std::nullopt;
  OrbaxMetadata out;
  const auto ocdbt = Member(document->root(), "use_ocdbt", JsonKind::kBool);
  if (ocdbt) out.use_ocdbt = ocdbt->boolean();
  const auto filled =
      Member(document->root(), "store_array_data_equal_to_fill_value",
             JsonKind::kBool);
  out.stores_fill_values = filled && filled->boolean();
  const auto tree =
      Member(document->root(), "tree_metadata", JsonKind::kObject);
  out.has_tree = tree.has_value();
  if (!tree) return out;
  for (const JsonMember& member : tree->members()) {
    auto leaf = ReadLeaf(member, findings);
    if (!leaf) return std::nullopt;
    out.leaves.push_back(std::move(*leaf));
  }
  return out;
}

std::optional<std::map<std::string, Sharding>> ReadOrbaxShardings(
    const std::string& path, Findings& findings) {
  const auto document = ParseMetadataFile(path, findings);
  if (document == nullptr) return std::nullopt;
  std::map<std::string, Sharding> out;
  for (const JsonMember& member : document->root().members()) {
    const auto name = DecodeUrlBase64(member.name());
    if (!name || !IsUtf8(*name) || !member.value.IsString()) {
      return Refuse(member.key, "a sharding must be a text, named in base64",
                    findings);
    }
    const auto source =
        MakeSource(path + ": " + *name, std::string(member.value.string()));
    const auto inner = JsonDocument::Parse(source, findings);
    if (inner == nullptr) return std::nullopt;
    const auto type = Member(inner->root(), "sharding_type", JsonKind::kString);
    if (!type || type->string() != "NamedSharding") continue;
    auto sharding = ReadNamed(inner->root());
    if (!sharding) {
      return Refuse(inner->root(),
                    "the sharding of " + ShortQuote(*name) +
                        " is malformed: it needs `shape`, as many distinct "
                        "`axis_names`, and a `partition_spec` of these",
                    findings);
    }
    out.emplace(*name, std::move(*sharding));
  }
  return out;
}

std::optional<std::map<std::string, std::string>> ReadOrbaxRandomKeys(
    const std::string& path, Findings& findings) {
  const auto document = ParseMetadataFile(path, findings);
  if (document == nullptr) return std::nullopt;
  std::map<std::string, std::string> out;
  const auto list =
      Member(document->root(), "array_metadatas", JsonKind::kArray);
  if (!list) return out;
  for (const JsonValue& item : list->items()) {
    const auto array = Member(item, "array_metadata", JsonKind::kObject);
    if (!array) continue;
    const auto name = Member(*array, "param_name", JsonKind::kString);
    const auto more = Member(*array, "ext_metadata", JsonKind::kObject);
    if (!name || !more) continue;
    const auto type = Member(*more, "random_key_impl", JsonKind::kString);
    if (type) out.emplace(name->string(), type->string());
  }
  return out;
}

std::optional<std::map<std::string, std::string>> ReadOrbaxStrings(
    const std::string& path, Findings& findings) {
  const auto document = ParseMetadataFile(path, findings);
  if (document == nullptr) return std::nullopt;
  std::map<std::string, std::string> out;
  for (const JsonMember& member : document->root().members()) {
    if (!member.value.IsString()) continue;
    out.emplace(member.name(), member.value.string());
  }
  return out;
}

// Finds the trees of arrays in the nested folders of an orbax checkpoint. The
// root folder of a CheckpointManager contains one folder for each step, named
// by its number. The folder of a step contains one folder for each item. The v1
// API stores a single tree as the item `state`. It stores each of several trees
// as an item of its own.
//
//   run/5, run/10/params, run/10/extra (no tree)  ->  run/10/params
//
// If a step has several trees, their arrays and leaves are named ITEM/NAME.

namespace {

constexpr std::string_view kStepFile = "_CHECKPOINT_METADATA";
constexpr std::string_view kV1File = "orbax.checkpoint";
constexpr std::string_view kV1Tree = "state";

// The name of a step's folder, such as `1000`, `00001000` or `checkpoint_1000`.
// In the last example, `prefix` is "checkpoint_" with the underscore.
struct StepName {
  std::string prefix;
  int64_t step = 0;
};
std::optional<StepName> ParseStepName(std::string_view name) {
  StepName out;
  const size_t underscore = name.rfind('_');
  if (underscore != std::string_view::npos) {
    out.prefix = name.substr(0, underscore + 1);
  }
  name.remove_prefix(out.prefix.size());
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data(), end, out.step);
  if (error != std::errc() || at != end || name[0] == '-') return std::nullopt;
  return out;
}

// Returns the items (subfolders) of a step that are trees.
std::vector<Folder> TreesIn(const Folder& folder) {
  std::vector<Folder> out;
  for (const std::string& name : folder.names) {
    if (IsUnfinishedName(name)) continue;
    auto item = ReadFolder(folder.PathOf(name));
    if (item && IsOrbaxTree(*item)) out.push_back(std::move(*item));
  }
  return out;
}

// Returns whether a folder is a step. A tree whose `_METADATA` is lost may
// contain kStepFile or kV1File too. A folder with a database is therefore not
// treated as a step, so that its arrays are read from the database.
bool IsStep(const Folder& folder) {
  return !IsOrbaxTree(folder) && !folder.Has(kOcdbtManifest) &&
         (folder.Has(kStepFile) || folder.Has(kV1File));
}

// Reads chunks of several trees. The arrays of all trees are numbered
// consecutively, beginning with those of the first tree.
class JoinedReader : public ChunkReader {
 public:
  void Add(std::shared_ptr<const ChunkReader> reader, size_t arrays) {
    for (size_t i = 0; i < arrays; ++i) members_.push_back({reader, i});
  }
  std::optional<std::string> Read(size_t array, int64_t chunk,
                                  Findings& findings) const override {
    const auto& [reader, number] = members_[array];
    return reader->Read(number, chunk, findings);
  }
  std::optional<ChunkPlace> Find(size_t array, int64_t chunk,
                                 Findings& findings) const override {
    const auto& [reader, number] = members_[array];
    return reader->Find(number, chunk, findings);
  }

 private:
  std::vector<std::pair<std::shared_ptr<const ChunkReader>, size_t>> members_;
};

// Prepends the name of an item to the name and the path of an array or a leaf.
template <class Member>
void PutInside(const std::string& item, Member& member) {
  member.name = item + "/" + member.name;
  member.path.insert(member.path.begin(), item);
  if (!member.in_sequence.empty() || member.path.size() == 1) {
    member.in_sequence.insert(member.in_sequence.begin(), false);
  }
}

// Adds a finding and returns true if an item has arrays but no `_METADATA` with
// their paths. Without this check, the item would be omitted silently.
bool RefuseItemWithoutPaths(const Folder& folder, Findings& findings) {
  for (const std::string& name : folder.names) {
    if (IsUnfinishedName(name)) continue;
    const auto item = ReadFolder(folder.PathOf(name));
    if (!item || IsOrbaxTree(*item) || FormatOf(*item) == nullptr) continue;
    findings.Add(code::kMissing, {MakeSource(item->path, {})},
                 "the item " + ShortQuote(name) +
                     " of the checkpoint holds arrays and no `" +
                     std::string(kOrbaxMetadata) + "`, which lists their paths",
                 "copy the checkpoint again, or name the folder of one item");
    return true;
  }
  return false;
}

std::optional<Tree> OpenStep(const Folder& folder, Findings& findings) {
  std::vector<Folder> items;
  if (RefuseItemWithoutPaths(folder, findings)) return std::nullopt;
  if (folder.Has(kV1File)) {
    auto state = ReadFolder(folder.PathOf(kV1Tree));
    if (state && IsOrbaxTree(*state)) items.push_back(std::move(*state));
  }
  // If the folder `state` is not a tree, all items that are trees are opened:
  // `save_checkpointables` of the v1 API may give items any name.
  if (items.empty()) items = TreesIn(folder);
  if (items.empty()) {
    findings.Add(code::kMissing, {MakeSource(folder.path, {})},
                 "the checkpoint's step has no item with arrays",
                 "give a step that was saved completely");
    return std::nullopt;
  }
  Tree out;
  const auto reader = std::make_shared<JoinedReader>();
  for (const Folder& item : items) {
    auto tree = OpenTree(item.path, findings);
    if (!tree) return std::nullopt;
    reader->Add(tree->reader, tree->arrays.size());
    const std::string name(AfterLast(item.path, '/'));
    for (Array& array : tree->arrays) {
      if (items.size() > 1) PutInside(name, array);
      out.arrays.push_back(std::move(array));
    }
    for (Leaf& leaf : tree->leaves) {
      if (items.size() > 1) PutInside(name, leaf);
      out.leaves.push_back(std::move(leaf));
    }
    out.form = tree->form;
    out.notes.insert(out.notes.end(), tree->notes.begin(), tree->notes.end());
  }
  out.path = folder.path;
  out.reader = reader;
  return out;
}

using Steps = std::vector<std::pair<int64_t, std::string>>;

// Returns the folders that have the name of a complete step, in ascending order
// of the steps. If some names are plain numbers, only these folders are
// returned. Otherwise all names must have the same prefix, such as
// `checkpoint_`.
Steps StepsIn(const Folder& folder) {
  std::map<std::string, Steps> by_prefix;
  for (const std::string& name : folder.names) {
    const auto parsed = ParseStepName(name);
    if (parsed) by_prefix[parsed->prefix].emplace_back(parsed->step, name);
  }
  const auto plain = by_prefix.find("");
  if (plain == by_prefix.end() && by_prefix.size() != 1) return {};
  Steps out = plain == by_prefix.end() ? std::move(by_prefix.begin()->second)
                                       : std::move(plain->second);
  std::sort(out.begin(), out.end());
  return out;
}

bool IsRoot(const Folder& folder) {
  const auto steps = StepsIn(folder);
  if (steps.empty() || HasEnding(folder, ".safetensors")) return false;
  const auto last = ReadFolder(folder.PathOf(steps.back().second));
  return last &&
         (IsStep(*last) || IsOrbaxTree(*last) || !TreesIn(*last).empty());
}

std::optional<Tree> OpenRoot(const Folder& folder, Findings& findings) {
  const auto steps = StepsIn(folder);
  const auto last = ReadFolder(folder.PathOf(steps.back().second));
  std::optional<Tree> tree;
  if (last) {
    tree = IsOrbaxTree(*last) ? OpenTree(last->path, findings)
                              : OpenStep(*last, findings);
  }
  if (!tree) return std::nullopt;
  tree->notes.insert(tree->notes.begin(),
                     "step " + std::to_string(steps.back().first) +
                         ", the latest of " +
                         Counted(static_cast<int64_t>(steps.size()), "step"));
  tree->path = folder.path;
  return tree;
}

}  // namespace

extern const Format kOrbaxStep;
extern const Format kOrbaxRoot;
const Format kOrbaxStep{"orbax step", IsStep, OpenStep};
const Format kOrbaxRoot{"orbax CheckpointManager", IsRoot, OpenRoot};

}  // namespace shardc::stored
