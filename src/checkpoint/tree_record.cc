// Writes and reads the record of a tree in the metadata of safetensors files.
// With this record, a tree that was converted to safetensors files can be
// restored. A tensor named `a/b` has the path [`a`, `b`] unless the record
// contains another path. The record also contains the paths of lists, and the
// values that are not tensors:
//
//   tensor opt_state/0/mu/w; `opt_state` is a list whose second node is empty
//     ->  {"version": 1, "lists": [["opt_state"]],
//          "empty": [{"path": ["opt_state", "1"], "type": "None"}]}
#include "checkpoint/tree_record.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "model/name.h"
#include "source/json.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using Keys = std::vector<std::string>;

constexpr int64_t kVersion = 1;

// Returns the parts of a name between `/`.
Keys KeysOf(std::string_view name) {
  const auto parts = SplitName(name, '/');
  return {parts.begin(), parts.end()};
}

bool IsNumber(std::string_view key) {
  return !key.empty() &&
         key.find_first_not_of("0123456789") == std::string_view::npos;
}

void AddLists(const Keys& keys, const std::vector<bool>& in_sequence,
              std::set<Keys>& lists) {
  for (size_t i = 0; i < std::min(keys.size(), in_sequence.size()); ++i) {
    if (!in_sequence[i]) continue;
    lists.emplace(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Returns for each key of a path whether it is an index of a list. `lists` has
// the paths of all lists.
std::vector<bool> InSequence(const Keys& keys, const std::set<Keys>& lists) {
  std::vector<bool> out;
  Keys node;
  for (const std::string& key : keys) {
    out.push_back(IsNumber(key) && lists.contains(node));
    node.push_back(key);
  }
  return out;
}

class RecordReader {
 public:
  RecordReader(Stored& stored, Findings& findings)
      : stored_(stored), findings_(findings) {}

  bool Read(const std::string& text) {
    const auto document = JsonDocument::Parse(
        MakeSource(stored_.path + " (" + std::string(kTreeRecordKey) + ")",
                   text),
        findings_);
    if (document == nullptr) return false;
    const JsonValue root = document->root();
    const auto version = root.IsObject() ? root.Find("version") : std::nullopt;
    if (!version || version->kind() != JsonKind::kInteger ||
        version->integer() != kVersion) {
      return Refuse(root, "states no version 1");
    }
    return ReadLists(root) && ReadTensors(root) && ReadLeaves(root);
  }

 private:
  bool Refuse(const JsonValue& value, const std::string& what) {
    findings_.Add(code::kSchema, value.place(),
                  "the record of the tree " + what,
                  "write the files again, or remove `" +
                      std::string(kTreeRecordKey) + "` from their metadata");
    return false;
  }

  std::optional<Keys> ReadKeys(const JsonValue& value) {
    Keys out;
    bool valid = value.IsArray();
    if (valid) {
      for (const JsonValue& key : value.items()) {
        if (!key.IsString()) {
          valid = false;
          break;
        }
        out.emplace_back(key.string());
      }
    }
    if (valid) return out;
    Refuse(value, "has a path that is no list of texts");
    return std::nullopt;
  }

  // Calls `visit` for the elements of the member `name`, which may be absent.
  // Returns false if the member is not a list or if `visit` returns false.
  template <class Visit>
  bool ForEach(const JsonValue& root, std::string_view name,
               const Visit& visit) {
    const auto list = root.Find(name);
    if (!list) return true;
    if (!list->IsArray()) {
      return Refuse(*list, "has `" + std::string(name) + "` that is no list");
    }
    for (const JsonValue& item : list->items()) {
      if (!visit(item)) return false;
    }
    return true;
  }

  bool ReadLists(const JsonValue& root) {
    return ForEach(root, "lists", [&](const JsonValue& item) {
      auto keys = ReadKeys(item);
      if (!keys) return false;
      lists_.insert(std::move(*keys));
      return true;
    });
  }

  // Returns the text of an object's member. Returns nullopt after a finding if
  // the member is missing or is not a text.
  std::optional<std::string> TextOf(const JsonValue& object,
                                    std::string_view name) {
    const auto member = object.IsObject() ? object.Find(name) : std::nullopt;
    if (member && member->IsString()) return std::string(member->string());
    Refuse(object, "has an entry without the text `" + std::string(name) + "`");
    return std::nullopt;
  }
  std::optional<Keys> PathOf(const JsonValue& object) {
    const auto member = object.IsObject() ? object.Find("path") : std::nullopt;
    if (member) return ReadKeys(*member);
    Refuse(object, "has an entry without a `path`");
    return std::nullopt;
  }

  bool ReadTensors(const JsonValue& root) {
    std::unordered_map<std::string, Keys> paths;
    std::unordered_map<std::string, std::string> random_keys;
    const bool read =
        ForEach(root, "paths",
                [&](const JsonValue& item) {
                  auto name = TextOf(item, "name");
                  auto keys = name ? PathOf(item) : std::nullopt;
                  if (!keys) return false;
                  if (keys->empty()) return Refuse(item, "has an empty path");
                  paths.emplace(std::move(*name), std::move(*keys));
                  return true;
                }) &&
        ForEach(root, "random_keys", [&](const JsonValue& item) {
          auto name = TextOf(item, "name");
          auto type = name ? TextOf(item, "type") : std::nullopt;
          if (!type) return false;
          random_keys.emplace(std::move(*name), std::move(*type));
          return true;
        });
    if (!read) return false;
    for (StoredTensor& tensor : stored_.tensors) {
      const auto path = paths.find(tensor.name);
      tensor.in_tree.keys =
          path == paths.end() ? KeysOf(tensor.name) : path->second;
      tensor.in_tree.in_sequence = InSequence(tensor.in_tree.keys, lists_);
      const auto random_key = random_keys.find(tensor.name);
      if (random_key != random_keys.end()) {
        tensor.in_tree.random_key = random_key->second;
      }
    }
    return true;
  }

  bool AddLeaf(const JsonValue& item, stored::Leaf::Kind kind,
               std::string_view member) {
    auto keys = PathOf(item);
    auto text = keys ? TextOf(item, member) : std::nullopt;
    if (!text) return false;
    if (keys->empty()) return Refuse(item, "has an empty path");
    stored::Leaf leaf;
    leaf.name = stored::JoinKeys(*keys, '/');
    leaf.kind = kind;
    leaf.text = std::move(*text);
    leaf.in_sequence = InSequence(*keys, lists_);
    leaf.path = std::move(*keys);
    stored_.leaves.push_back(std::move(leaf));
    return true;
  }

  bool ReadLeaves(const JsonValue& root) {
    return ForEach(root, "empty",
                   [&](const JsonValue& item) {
                     return AddLeaf(item, stored::Leaf::Kind::kEmpty, "type");
                   }) &&
           ForEach(root, "strings", [&](const JsonValue& item) {
             return AddLeaf(item, stored::Leaf::Kind::kString, "text");
           });
  }

  Stored& stored_;
  Findings& findings_;
  std::set<Keys> lists_;
};

// Writes a member that is a list; `write` writes its elements. Writes nothing
// if the list is empty (`any` is false).
template <class Write>
void WriteList(JsonWriter& json, std::string_view name, bool any,
               const Write& write) {
  if (!any) return;
  json.Key(name);
  json.BeginArray();
  write();
  json.EndArray();
}

void WriteLeaves(JsonWriter& json, std::string_view name,
                 std::string_view member,
                 const std::vector<stored::Leaf>& leaves,
                 stored::Leaf::Kind kind) {
  const auto is_one = [&](const stored::Leaf& leaf) {
    return leaf.kind == kind && !leaf.path.empty();
  };
  WriteList(json, name, std::any_of(leaves.begin(), leaves.end(), is_one), [&] {
    for (const stored::Leaf& leaf : leaves) {
      if (!is_one(leaf)) continue;
      json.Object("path", leaf.path, member, leaf.text);
    }
  });
}

}  // namespace

std::string TreeRecordText(const std::vector<StoredTensor>& tensors,
                           const std::vector<stored::Leaf>& leaves) {
  std::set<Keys> lists;
  std::vector<const StoredTensor*> renamed;
  std::vector<const StoredTensor*> random_keys;
  for (const StoredTensor& tensor : tensors) {
    const TreePlace& place = tensor.in_tree;
    AddLists(place.keys, place.in_sequence, lists);
    if (!place.random_key.empty()) random_keys.push_back(&tensor);
    if (!place.keys.empty() && place.keys != KeysOf(tensor.name)) {
      renamed.push_back(&tensor);
    }
  }
  for (const stored::Leaf& leaf : leaves) {
    AddLists(leaf.path, leaf.in_sequence, lists);
  }
  if (lists.empty() && renamed.empty() && random_keys.empty() &&
      leaves.empty()) {
    return {};
  }
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("version", kVersion);
    WriteList(json, "lists", !lists.empty(), [&] {
      for (const Keys& keys : lists) json.Array(keys);
    });
    WriteList(json, "paths", !renamed.empty(), [&] {
      for (const StoredTensor* tensor : renamed) {
        json.Object("name", tensor->name, "path", tensor->in_tree.keys);
      }
    });
    WriteLeaves(json, "empty", "type", leaves, stored::Leaf::Kind::kEmpty);
    WriteLeaves(json, "strings", "text", leaves, stored::Leaf::Kind::kString);
    WriteList(json, "random_keys", !random_keys.empty(), [&] {
      for (const StoredTensor* tensor : random_keys) {
        json.Object("name", tensor->name, "type", tensor->in_tree.random_key);
      }
    });
    json.EndObject();
  });
}

bool ReadTreeRecord(Stored& stored, Findings& findings) {
  for (const auto& [key, text] : stored.metadata) {
    if (key == kTreeRecordKey) {
      return RecordReader(stored, findings).Read(text);
    }
  }
  return true;
}

Metadata WithNewNames(const Metadata& metadata,
                      std::span<const NewName> tensors) {
  Stored renamed;
  renamed.metadata = metadata;
  // Sets `renamed.leaves` from the record. The other members of the record
  // describe tensors, and `renamed` has no tensors yet.
  Findings ignored;
  ReadTreeRecord(renamed, ignored);
  for (const auto& [tensor, name] : tensors) {
    StoredTensor& one = renamed.tensors.emplace_back();
    one.name = name;
    one.in_tree = tensor->in_tree;
  }
  Metadata out = WithoutTreeRecord(metadata);
  std::string record = TreeRecordText(renamed.tensors, renamed.leaves);
  if (!record.empty()) out.emplace_back(kTreeRecordKey, std::move(record));
  return out;
}

Metadata WithoutTreeRecord(const Metadata& metadata) {
  Metadata out;
  std::copy_if(metadata.begin(), metadata.end(), std::back_inserter(out),
               [](const auto& entry) { return entry.first != kTreeRecordKey; });
  return out;
}

}  // namespace shardc
