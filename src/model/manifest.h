// A manifest lists a model's parameters: names, shapes and data types.
#ifndef SHARDC_MODEL_MANIFEST_H_
#define SHARDC_MODEL_MANIFEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "source/plain_json.h"
#include "source/source.h"

namespace shardc::program {
struct Facts;
}  // namespace shardc::program

namespace shardc {

class JsonWriter;

using Shape = std::vector<int64_t>;

// Returns the shape as text, such as "[4096, 11008]".
std::string ShapeText(const Shape& shape);

// The shape and the dtype of a tensor. They are nullopt if the manifest has
// only names.
struct TensorType {
  std::optional<Shape> shape;
  std::optional<Dtype> dtype;

  // Returns the product of the shape's sizes, or nullopt if the shape is
  // unknown. Readers refuse shapes whose product overflows.
  std::optional<int64_t> Elements() const;
  std::optional<int64_t> Bytes() const;

  bool operator==(const TensorType&) const = default;
  auto operator<=>(const TensorType&) const = default;
};

// Writes the members "shape" and "dtype" of a JSON object. The value is null if
// the shape or the dtype is unknown.
void WriteTypeMembers(JsonWriter& json, const TensorType& type);

struct Tensor {
  std::string_view name;
  uint32_t type = 0;  // index into Manifest::types
};

// Stores texts at addresses that stay valid until the store is destroyed.
class TextStore {
 public:
  std::string_view Keep(std::string_view text);

 private:
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

// The note that commands print with the sizes of a model whose config.json
// names no dtype.
inline constexpr std::string_view kDtypeAssumed =
    "the configuration has neither `dtype` nor `torch_dtype`: parameters are "
    "assumed to be float32, as in transformers";

// The names of the tensors are views into the text of `source`. A name that the
// source does not contain literally, such as a name with escapes, is a view
// into `texts`.
struct Manifest {
  std::vector<Tensor> tensors;  // The tensors; no two have the same name.
  // The distinct types of the tensors; each occurs once.
  std::vector<TensorType> types;
  // The model's name from the file; may be empty.
  std::string model;
  std::string naming;
  // Separates the parts of names: '/', '.', or 0 if no name contains either.
  char separator = 0;
  SourceRef source;  // The file, to which messages refer.
  std::shared_ptr<TextStore> texts;
  // Indices of the tensors in the byte order of their names; empty if the order
  // is unknown.
  std::vector<uint32_t> by_name;
  // True if all names are known to be printable ASCII without `"` and `\`, so
  // that they need no escapes in JSON.
  bool plain_names = false;
  // True if the tensors were built from a config.json that names no dtype, so
  // that float32 is assumed. `notes` then has kDtypeAssumed.
  bool dtype_assumed = false;
  // What the file states of the model besides its tensors, as the text of a
  // config.json; empty for formats that state nothing. GGUF files have it.
  std::string config;
  // Notes for the user, for example that the manifest has only names.
  std::vector<std::string> notes;
  // What the description of the model's family states about the dimensions of
  // tensors, by their names; null if there is no description.
  std::shared_ptr<const program::Facts> described;

  const TensorType& TypeOf(const Tensor& tensor) const {
    return types[tensor.type];
  }
};

// Builds a manifest, storing each distinct type once.
class ManifestBuilder {
 public:
  // Adds a tensor. The name is copied unless it points into the manifest's
  // source.
  void Add(std::string_view name, TensorType type);
  Manifest Take();  // Returns the manifest and leaves the builder empty.
  Manifest& manifest() { return manifest_; }

 private:
  Manifest manifest_;
  std::map<TensorType, uint32_t> ids_;
};

// Numbers the distinct types of many tensors in the order of first use. A model
// has few distinct types, so most lookups find a known type and allocate no
// memory.

// A tensor's type while it is parsed. It is stored without an allocation, so it
// has at most kMostDimensions dimensions.
struct FlatType {
  static constexpr size_t kMostDimensions = 8;

  std::array<int64_t, kMostDimensions> shape{};
  uint8_t rank = 0;
  bool has_shape = false;
  std::optional<Dtype> dtype;

  bool operator==(const FlatType&) const = default;
  size_t Hash() const;
  TensorType Type() const;
  // Parses a shape such as `[8, 4]`. Returns false for any other text and for
  // more than kMostDimensions dimensions.
  bool TakeShape(PlainJson& json) {
    has_shape = true;
    if (!json.Take('[')) return false;
    if (json.Take(']')) return true;
    do {
      if (rank == kMostDimensions || !json.Number(shape[rank++])) return false;
    } while (json.Take(','));
    return json.Take(']');
  }
};

class TypeNumbers {
 public:
  TypeNumbers() : slots_(kLeastSlots, kFree) {}

  // Returns the type's number, or nullopt if its number of elements or of bytes
  // overflows.
  std::optional<uint32_t> Of(const FlatType& type) {
    if (!types_.empty() && types_[last_] == type) return last_;
    return Search(type);
  }
  size_t size() const { return types_.size(); }
  std::vector<TensorType> Take() const;

 private:
  static constexpr size_t kLeastSlots = 256;
  static constexpr uint32_t kFree = UINT32_MAX;

  std::optional<uint32_t> Search(const FlatType& type);
  void Grow();

  std::vector<FlatType> types_;
  std::vector<uint32_t> slots_;
  uint32_t last_ = 0;
};

struct HeaderEntry {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  // The number of bytes of the tensor's data. The data follow the data of the
  // previous entry.
  int64_t bytes = 0;
};

// Returns all bytes of a file before the data: the length, the JSON, and
// padding that aligns the data to `alignment` bytes.
std::string SafetensorsHeaderText(
    const std::vector<HeaderEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata,
    size_t alignment = 8);

// Data types that ggml stores in blocks, such as Q4_K. A block has a fixed
// number of elements of the innermost dimension, together with their scales.
// These types continue the numbering of Dtype (model/dtype.h), and the
// functions DtypeName, DtypeBits and BytesOf accept them.

namespace block {

inline constexpr Dtype kQ4_0{24};
inline constexpr Dtype kQ4_1{25};
inline constexpr Dtype kQ5_0{26};
inline constexpr Dtype kQ5_1{27};
inline constexpr Dtype kQ8_0{28};
inline constexpr Dtype kQ8_1{29};
inline constexpr Dtype kQ2K{30};
inline constexpr Dtype kQ3K{31};
inline constexpr Dtype kQ4K{32};
inline constexpr Dtype kQ5K{33};
inline constexpr Dtype kQ6K{34};
inline constexpr Dtype kQ8K{35};
inline constexpr Dtype kIq2Xxs{36};
inline constexpr Dtype kIq2Xs{37};
inline constexpr Dtype kIq3Xxs{38};
inline constexpr Dtype kIq1S{39};
inline constexpr Dtype kIq4Nl{40};
inline constexpr Dtype kIq3S{41};
inline constexpr Dtype kIq2S{42};
inline constexpr Dtype kIq4Xs{43};
inline constexpr Dtype kIq1M{44};
inline constexpr Dtype kTq1_0{45};
inline constexpr Dtype kTq2_0{46};
inline constexpr Dtype kMxfp4{47};

}  // namespace block

std::span<const Dtype> BlockDtypes();
// Parses the dtypes that a manifest may have: the spellings that ParseDtype
// accepts, and ggml's names of block types, such as "Q4_K". Returns nullopt for
// any other text.
std::optional<Dtype> ParseStoredDtype(std::string_view text);

// Returns the number of elements of a block; 1 for a type without blocks.
int64_t BlockElements(Dtype dtype);
// Returns the number of elements along dimension `dim` that are stored in one
// block. Blocks are along the last dimension, so the number is 1 for all other
// dimensions. It is also 1 if the shape or the dtype is unknown.
int64_t BlockAlong(const TensorType& type, size_t dim);

}  // namespace shardc

#endif  // SHARDC_MODEL_MANIFEST_H_
