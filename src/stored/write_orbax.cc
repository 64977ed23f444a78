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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/directory.h"
#include "source/json_writer.h"
#include "source/wording.h"
#include "stored/codecs.h"
#include "stored/gather.h"
#include "stored/new_folder.h"
#include "stored/orbax.h"
#include "stored/write.h"
#include "stored/write_chunks.h"
#include "stored/write_ocdbt.h"
#include "stored/write_orbax_metadata.h"
#include "stored/write_parts.h"
#include "stored/zarr.h"

namespace shardc::stored {
namespace {

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
      json.BeginObject();
      json.Member("id", "zstd");
      json.Member("level", kZstdLevel);
      json.EndObject();
    } else {
      json.Null();
    }
    json.Member("dimension_separator", ".");
    json.Member("dtype", ZarrName(*array.dtype));
    json.Key("fill_value");
    json.Null();
    json.Key("filters");
    json.Null();
    json.Member("order", "C");
    json.Member("shape", array.shape);
    json.Member("zarr_format", 2);
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
        if (!next->is_held) {
          database.AddPlaced(std::move(key), next->process, next->offset,
                             next->bytes);
        } else if (!database.Add(std::move(key), next->held, findings)) {
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
