// Finds the trees of arrays in the nested folders of an orbax checkpoint. The
// root folder of a CheckpointManager contains one folder for each step, named
// by its number. The folder of a step contains one folder for each item. The v1
// API stores a single tree as the item `state`. It stores each of several trees
// as an item of its own.
//
//   run/5, run/10/params, run/10/extra (no tree)  ->  run/10/params
//
// If a step has several trees, their arrays and leaves are named ITEM/NAME.
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/after_last.h"
#include "source/wording.h"
#include "stored/format.h"
#include "stored/ocdbt.h"
#include "stored/orbax.h"

namespace shardc::stored {
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
