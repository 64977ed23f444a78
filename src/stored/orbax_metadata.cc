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
#include "stored/orbax_metadata.h"

#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "source/checked.h"
#include "source/file.h"
#include "source/json.h"
#include "source/url_base64.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "stored/store.h"

namespace shardc::stored {
namespace {

constexpr int64_t kLimitBytes = int64_t{128} << 20;

std::unique_ptr<const JsonDocument> Parse(const std::string& path,
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
  const auto document = Parse(path, findings);
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
  const auto document = Parse(path, findings);
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
  const auto document = Parse(path, findings);
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
  const auto document = Parse(path, findings);
  if (document == nullptr) return std::nullopt;
  std::map<std::string, std::string> out;
  for (const JsonMember& member : document->root().members()) {
    if (!member.value.IsString()) continue;
    out.emplace(member.name(), member.value.string());
  }
  return out;
}

}  // namespace shardc::stored
