// Writes orbax checkpoints. An array is stored as a zarr array of version 2,
// whose chunks are values of an OCDBT database. Its name is its path joined by
// dots, and `_METADATA` lists the paths:
//
//   path [`layer0`, `kernel`], shape [10, 7], chunks of [4, 4]
//     ->  `layer0.kernel/.zarray`, `layer0.kernel/0.0`, ..., `.../2.1`
//
// Chunks at the end of an array are padded with zeros. If an array has a
// sharding or holds random keys, orbax restores it as a JAX array. It restores
// other arrays as numpy arrays. JAX arrays are restored on the devices of the
// stored sharding unless the caller passes a target.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/mesh_layout.h"
#include "source/file.h"
#include "source/json_writer.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "stored/box.h"
#include "stored/codecs.h"
#include "stored/orbax.h"
#include "stored/tree.h"
#include "stored/write.h"
#include "stored/write_ocdbt.h"
#include "stored/zarr.h"

namespace shardc::stored {
namespace {

// Writes the JSON files of an orbax checkpoint. `_METADATA` has an entry for
// each leaf, in the order of the tree:
//
//   path [`layers`, `0`], a list  ->  "('layers', '0')": {"key_metadata":
//     [{"key": "layers", "key_type": 2}, {"key": "0", "key_type": 1}],
//      "value_metadata": {"value_type": "np.ndarray", ...}}

// Returns whether orbax restores the array as a JAX array. Orbax restores an
// array as a JAX array if it has a sharding, or if it holds random keys, which
// only JAX arrays can hold.
bool IsOfJax(const Array& array);

// The text of `_CHECKPOINT_METADATA`, which orbax writes for each save. It
// contains no times, so that saving the same tree twice writes equal bytes.
inline constexpr std::string_view kOrbaxStepText =
    "{\"item_handlers\": "
    "\"orbax.checkpoint._src.handlers.pytree_checkpoint_handler."
    "PyTreeCheckpointHandler\", \"metrics\": {}, "
    "\"performance_metrics\": {}, \"init_timestamp_nsecs\": null, "
    "\"commit_timestamp_nsecs\": null, \"custom_metadata\": {}}";

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
    json.Object("key", entry.path[i], "key_type",
                entry.InSequence(i) ? kSequenceType : kDictionaryType);
  }
  json.EndArray();
  json.Member("value_metadata", Record("value_type", entry.value_type,
                                       "skip_deserialize", entry.empty));
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
    json.Member("partition_spec", WrittenBy(WriteSpec, sharding.spec));
    const std::vector<int64_t> devices = DeviceOrder(sharding.mesh);
    if (!devices.empty()) {
      json.Member(
          "device_mesh",
          Record("mesh", WrittenBy(WriteDeviceGrid, sharding.mesh, devices)));
    }
    json.EndObject();
  });
}

// The text of the sharding of an array that is only on the first device.
constexpr std::string_view kOnFirstDevice =
    "{\"sharding_type\": \"NamedSharding\", \"shape\": [1], "
    "\"axis_names\": [\"device\"], \"partition_spec\": [], "
    "\"device_mesh\": {\"mesh\": [{\"id\": 0}]}}";

bool IsOfJax(const Array& array) {
  return array.sharding || !array.random_key.empty();
}

// Returns the text of `_METADATA`, which lists the paths of all arrays and of
// the leaves that are written (IsWritten).
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
    json.Members("use_ocdbt", true, "use_zarr3", false,
                 "store_array_data_equal_to_fill_value", true,
                 "custom_metadata", nullptr);
    json.EndObject();
  });
}

// Returns the text of `_sharding`, which lists the shardings of JAX arrays.
std::string OrbaxShardingsText(std::span<const Array> arrays) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    for (const Array& array : arrays) {
      if (!IsOfJax(array)) continue;
      json.Member(EncodeUrlBase64(array.key),
                  array.sharding ? ShardingText(*array.sharding)
                                 : std::string(kOnFirstDevice));
    }
    json.EndObject();
  });
}

// Returns the text of `_strings.json`, which contains the leaves that are
// strings.
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

// Returns the text of `array_metadatas/process_0`, which lists the
// implementations of random keys.
std::string OrbaxRandomKeysText(std::span<const Array> arrays) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Key("array_metadatas");
    json.BeginArray();
    for (const Array& array : arrays) {
      if (array.random_key.empty()) continue;
      json.Object("array_metadata",
                  Record("param_name", array.key, "write_shape", array.shape,
                         "chunk_shape", array.chunk, "ext_metadata",
                         Record("random_key_impl", array.random_key)));
    }
    json.EndArray();
    json.EndObject();
  });
}

constexpr int kZstdLevel = 1;  // the level that orbax uses

// Returns the name of a data type in zarr version 2. Returns an empty text if
// shardc writes no arrays of this type.
std::string_view ZarrName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
      return "|b1";
    case Dtype::kU8:
      return "|u1";
    case Dtype::kI8:
      return "|i1";
    case Dtype::kI16:
      return "<i2";
    case Dtype::kU16:
      return "<u2";
    case Dtype::kI32:
      return "<i4";
    case Dtype::kU32:
      return "<u4";
    case Dtype::kI64:
      return "<i8";
    case Dtype::kU64:
      return "<u8";
    case Dtype::kF16:
      return "<f2";
    case Dtype::kBF16:
      return "bfloat16";
    case Dtype::kF32:
      return "<f4";
    case Dtype::kF64:
      return "<f8";
    case Dtype::kC64:
      return "<c8";
    case Dtype::kF8E4M3:
      return "float8_e4m3fn";
    case Dtype::kF8E5M2:
      return "float8_e5m2";
    case Dtype::kF8E8M0:
      return "float8_e8m0fnu";
    case Dtype::kF4:
      return "float4_e2m1fn";
    case Dtype::kF8E4M3Fnuz:
      return "float8_e4m3fnuz";
    case Dtype::kF8E5M2Fnuz:
      return "float8_e5m2fnuz";
    case Dtype::kI4:
      return "int4";
    case Dtype::kF6E2M3:
    case Dtype::kF6E3M2:
    case Dtype::kU4:
      break;
  }
  return {};
}

std::string ChunkKey(const Array& array, const Box& box) {
  std::string place;
  for (size_t dim = 0; dim < box.offset.size(); ++dim) {
    if (dim > 0) place += '.';
    place += std::to_string(box.offset[dim] / array.chunk[dim]);
  }
  return PathIn(array.key, place.empty() ? "0" : place);
}

std::string Zarray(const Array& array, bool compress) {
  return JsonText([&](JsonWriter& json) {
    json.BeginObject();
    json.Member("chunks", array.chunk);
    json.Key("compressor");
    if (compress) {
      json.Object("id", "zstd", "level", kZstdLevel);
    } else {
      json.Null();
    }
    json.Members("dimension_separator", ".", "dtype", ZarrName(*array.dtype),
                 "fill_value", nullptr, "filters", nullptr, "order", "C",
                 "shape", array.shape, "zarr_format", 2);
    json.EndObject();
  });
}

// Returns the elements of a box. If the box is at the end of the array and
// smaller than a chunk, the elements are padded with zeros to a full chunk.
std::string Padded(const Array& array, const Box& box, std::string elements) {
  if (box.shape == array.chunk) return elements;
  const Region part = RegionOf(FullBox(box.shape));
  const Region full = RegionOf(FullBox(array.chunk));
  std::string out(static_cast<size_t>(full.Units() * array.element_bytes),
                  '\0');
  CopyRegion(part, part, elements.data(), full, out.data(),
             array.element_bytes);
  return out;
}

bool WriteText(const NewFolder& folder, std::string_view name,
               std::string_view text, Findings& findings) {
  auto file = NewFile::Create(folder.PathOf(name), findings);
  return file && file->Append(text, findings) && file->Close(findings);
}

class OrbaxFormat : public PartsFormat {
 public:
  OrbaxFormat(std::span<const Array> arrays, std::span<const Leaf> leaves,
              bool compress)
      : arrays_(arrays), leaves_(leaves), compress_(compress) {}

  WriteForm form() const override { return WriteForm::kOrbax; }
  std::string DataFile(int64_t process, int64_t processes) const override {
    return processes == 1 ? "d/values" : "d/values" + std::to_string(process);
  }
  int64_t held_bytes() const override { return OcdbtWriter::kHeldBytes; }

  std::string Encode(const Array& array, const Box& box,
                     std::string elements) const override {
    elements = Padded(array, box, std::move(elements));
    return compress_ ? EncodeZstd(elements, kZstdLevel) : elements;
  }

  bool Complete(WrittenParts parts, const NewFolder& folder,
                Findings& findings) override {
    if (!WriteDatabase(std::move(parts), folder, findings)) return false;
    const bool sharded = std::any_of(arrays_.begin(), arrays_.end(), IsOfJax);
    const bool random_keys = std::any_of(
        arrays_.begin(), arrays_.end(),
        [](const Array& array) { return !array.random_key.empty(); });
    const bool strings = std::any_of(
        leaves_.begin(), leaves_.end(),
        [](const Leaf& leaf) { return leaf.kind == Leaf::Kind::kString; });
    return (!sharded || WriteText(folder, "_sharding",
                                  OrbaxShardingsText(arrays_), findings)) &&
           (!random_keys ||
            (folder.MakeFolder("array_metadatas", findings) &&
             WriteText(folder, "array_metadatas/process_0",
                       OrbaxRandomKeysText(arrays_), findings))) &&
           (!strings || WriteText(folder, "_strings.json",
                                  OrbaxStringsText(leaves_), findings)) &&
           WriteText(folder, "_CHECKPOINT_METADATA", kOrbaxStepText,
                     findings) &&
           WriteText(folder, kOrbaxMetadata,
                     OrbaxMetadataText(arrays_, leaves_), findings);
  }

 private:
  bool WriteDatabase(WrittenParts parts, const NewFolder& folder,
                     Findings& findings) const {
    OcdbtWriter database(folder, std::move(parts.files),
                         std::move(parts.first));
    auto next = parts.chunks.begin();
    for (const Array& array : arrays_) {
      if (!database.Add(PathIn(array.key, ".zarray"), Zarray(array, compress_),
                        findings)) {
        return false;
      }
      for (int64_t chunk = 0; chunk < array.Chunks(); ++chunk, ++next) {
        std::string key = ChunkKey(array, array.BoxOf(chunk));
        if (!next->held) {
          database.AddPlaced(std::move(key), next->process, next->offset,
                             next->bytes);
        } else if (!database.Add(std::move(key), *next->held, findings)) {
          return false;
        }
      }
    }
    return WriteNumbers(database, findings) && database.Finish(findings);
  }

  // Writes leaves that are numbers as arrays without dimensions.
  bool WriteNumbers(OcdbtWriter& database, Findings& findings) const {
    for (const Leaf& leaf : leaves_) {
      if (leaf.kind != Leaf::Kind::kNumber) continue;
      Array array;
      array.key = StorageName(PathOf(leaf));
      array.dtype = leaf.dtype;
      if (!database.Add(PathIn(array.key, ".zarray"), Zarray(array, false),
                        findings) ||
          !database.Add(ChunkKey(array, {}), leaf.text, findings)) {
        return false;
      }
    }
    return true;
  }

  std::span<const Array> arrays_;
  std::span<const Leaf> leaves_;
  bool compress_;
};

}  // namespace

bool WriteOrbax(std::span<const ArrayToWrite> arrays,
                std::span<const Leaf> leaves, const BoxSource& source,
                const WriteOptions& options, Findings& findings) {
  const auto divided =
      DivideArrays(arrays, leaves, WriteForm::kOrbax, options, findings);
  if (!divided) return false;
  for (const ArrayToWrite& array : arrays) {
    // A path without keys is a tree that is one array, which has the name `.`.
    if (array.path.size() != 1 || !array.path[0].empty()) continue;
    findings.Add(code::kName, {MakeSource(options.folder, {})},
                 "an array has an empty name, which orbax cannot store",
                 "put it under a name");
  }
  for (const Array& array : *divided) {
    if (array.shape.size() > kMostZarrDims) {
      findings.Add(code::kInexpressible, {MakeSource(options.folder, {})},
                   ShortQuote(array.name) + " has " +
                       Counted(std::ssize(array.shape), "dimension") +
                       ", more than the " + CountText(kMostZarrDims) +
                       " that orbax can restore",
                   "write another format");
    }
    if (!ZarrName(*array.dtype).empty()) continue;
    findings.Add(code::kDtype, {MakeSource(options.folder, {})},
                 ShortQuote(array.name) + " has the data type " +
                     std::string(DtypeName(*array.dtype)) +
                     ", which orbax cannot store",
                 "write another format");
  }
  if (findings.HasErrors()) return false;
  OrbaxFormat format(*divided, leaves, options.compress);
  return WriteParts(*divided, source, options, format, findings);
}

}  // namespace shardc::stored
