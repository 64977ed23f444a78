// A manifest lists a model's parameters: names, shapes and data types.
#ifndef SHARDC_MODEL_MANIFEST_H_
#define SHARDC_MODEL_MANIFEST_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "source/source.h"

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

}  // namespace shardc

#endif  // SHARDC_MODEL_MANIFEST_H_
