// Writes the JSON files of an orbax checkpoint. `_METADATA` has an entry for
// each leaf, in the order of the tree:
//
//   path [`layers`, `0`], a list  ->  "('layers', '0')": {"key_metadata":
//     [{"key": "layers", "key_type": 2}, {"key": "0", "key_type": 1}],
//      "value_metadata": {"value_type": "np.ndarray", ...}}
#include "stored/write_orbax_metadata.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "model/mesh_layout.h"
#include "source/json_writer.h"
#include "source/url_base64.h"
#include "stored/write_chunks.h"

namespace shardc::stored {
namespace {

// Returns the path as Python prints a tuple of strings, such as ('a', 'b').
// Python may print strings with quotes or special characters in another way.
// This does no harm, because orbax uses the text only as a label.
std::string TupleText(const std::vector<std::string>& path) {
  std::string out = "(";
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0) out += ' ';
    out += '\'';
    for (const char c : path[i]) {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    }
    out += "',";
  }
  // Python prints a comma after the last string only if the tuple has one
  // string.
  if (path.size() > 1) out.pop_back();
  return out + ')';
}

// The numbers by which orbax distinguishes keys: the index of a list, and the
// key of a dictionary.
constexpr int kSequenceType = 1;
constexpr int kDictionaryType = 2;

std::string_view ValueType(const Leaf& leaf) {
  if (leaf.kind == Leaf::Kind::kString) return "string";
  if (leaf.kind == Leaf::Kind::kNumber) return "scalar";
  return leaf.text.empty() ? "None" : std::string_view(leaf.text);
}

// An entry of `tree_metadata`, which describes one leaf.
struct Entry {
  std::vector<std::string> path;
  std::vector<bool> in_sequence;
  std::string_view value_type;
  bool empty = false;
  std::vector<int64_t> order = {};  // position of each key among its siblings

  bool InSequence(size_t key) const {
    return key < in_sequence.size() && in_sequence[key];
  }
  std::vector<std::string> NodeOf(size_t key) const {
    return {path.begin(), path.begin() + static_cast<std::ptrdiff_t>(key)};
  }
};

// Marks lists with missing elements as dictionaries, because a missing element
// would shift the elements after it.
void CheckLists(std::vector<Entry>& entries) {
  CompleteLists lists;
  for (const Entry& entry : entries) lists.Add(entry.path, entry.in_sequence);
  for (Entry& entry : entries) {
    for (size_t key = 0; key < entry.path.size(); ++key) {
      if (!entry.InSequence(key)) continue;
      entry.in_sequence[key] =
          lists.IsIndex(entry.path, entry.in_sequence, key);
    }
  }
}

// Sorts the entries in the order of the tree. Elements of a list are sorted by
// their index. Children of other nodes stay in the order in which they first
// appear.
void SortLists(std::vector<Entry>& entries) {
  std::map<std::vector<std::string>, int64_t> first;
  for (Entry& entry : entries) {
    for (size_t key = 0; key < entry.path.size(); ++key) {
      const auto [known, is_new] = first.try_emplace(
          entry.NodeOf(key + 1), static_cast<int64_t>(first.size()));
      entry.order.push_back(entry.InSequence(key)
                                ? NumberOf(entry.path[key]).value_or(0)
                                : known->second);
    }
  }
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.order < b.order; });
}

std::vector<Entry> EntriesOf(std::span<const Array> arrays,
                             std::span<const Leaf> leaves) {
  std::vector<Entry> out;
  for (const Array& array : arrays) {
    out.push_back({array.path, array.in_sequence,
                   IsOfJax(array) ? "jax.Array" : "np.ndarray", false});
  }
  for (const Leaf& leaf : leaves) {
    if (!IsWritten(leaf, WriteForm::kOrbax)) continue;
    out.push_back({PathOf(leaf), leaf.in_sequence, ValueType(leaf),
                   leaf.kind == Leaf::Kind::kEmpty});
  }
  CheckLists(out);
  SortLists(out);
  return out;
}

void WriteEntry(JsonWriter& json, const Entry& entry) {
  json.Key(TupleText(entry.path));
  json.BeginObject();
  json.Key("key_metadata");
  json.BeginArray();
  for (size_t i = 0; i < entry.path.size(); ++i) {
    json.BeginObject();
    json.Member("key", entry.path[i]);
    json.Member("key_type",
                entry.InSequence(i) ? kSequenceType : kDictionaryType);
    json.EndObject();
  }
  json.EndArray();
  json.Key("value_metadata");
  json.BeginObject();
  json.Member("value_type", entry.value_type);
  json.Member("skip_deserialize", entry.empty);
  json.EndObject();
  json.EndObject();
}

// Returns the JSON text of a sharding. If the mesh has several slices (pods),
// its devices are not in the order of their ids, so the text lists them. If the
// text lists no devices, orbax assumes the order of the ids.
std::string ShardingText(const Sharding& sharding) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("sharding_type", "NamedSharding");
    json.Key("shape");
    json.Array(sharding.mesh.axes, &MeshAxis::size);
    json.Key("axis_names");
    json.Array(sharding.mesh.axes, &MeshAxis::name);
    json.Key("partition_spec");
    WriteSpec(json, sharding.spec);
    const std::vector<int64_t> devices = DeviceOrder(sharding.mesh);
    if (!devices.empty()) {
      json.Key("device_mesh");
      json.BeginObject();
      json.Key("mesh");
      WriteDeviceGrid(json, sharding.mesh, devices);
      json.EndObject();
    }
    json.EndObject();
  });
}

// The text of the sharding of an array that is only on the first device.
constexpr std::string_view kOnFirstDevice =
    "{\"sharding_type\": \"NamedSharding\", \"shape\": [1], "
    "\"axis_names\": [\"device\"], \"partition_spec\": [], "
    "\"device_mesh\": {\"mesh\": [{\"id\": 0}]}}";

}  // namespace

bool IsOfJax(const Array& array) {
  return array.sharding || !array.random_key.empty();
}

std::string OrbaxMetadataText(std::span<const Array> arrays,
                              std::span<const Leaf> leaves) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Key("tree_metadata");
    json.BeginObject();
    for (const Entry& entry : EntriesOf(arrays, leaves)) {
      WriteEntry(json, entry);
    }
    json.EndObject();
    json.Member("use_ocdbt", true);
    json.Member("use_zarr3", false);
    json.Member("store_array_data_equal_to_fill_value", true);
    json.Key("custom_metadata");
    json.Null();
    json.EndObject();
  });
}

std::string OrbaxShardingsText(std::span<const Array> arrays) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    for (const Array& array : arrays) {
      if (!IsOfJax(array)) continue;
      json.Key(EncodeUrlBase64(array.key));
      json.String(array.sharding ? ShardingText(*array.sharding)
                                 : std::string(kOnFirstDevice));
    }
    json.EndObject();
  });
}

std::string OrbaxStringsText(std::span<const Leaf> leaves) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    for (const Leaf& leaf : leaves) {
      if (leaf.kind != Leaf::Kind::kString) continue;
      json.Member(StorageName(PathOf(leaf)), leaf.text);
    }
    json.EndObject();
  });
}

std::string OrbaxRandomKeysText(std::span<const Array> arrays) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Key("array_metadatas");
    json.BeginArray();
    for (const Array& array : arrays) {
      if (array.random_key.empty()) continue;
      json.BeginObject();
      json.Key("array_metadata");
      json.BeginObject();
      json.Member("param_name", array.key);
      json.Member("write_shape", array.shape);
      json.Member("chunk_shape", array.chunk);
      json.Key("ext_metadata");
      json.BeginObject();
      json.Member("random_key_impl", array.random_key);
      json.EndObject();
      json.EndObject();
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  });
}

}  // namespace shardc::stored
