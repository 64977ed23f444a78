// A parameter tree as a list: names, shapes and data types.
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

std::string ShapeText(const Shape& shape);  // "[4096, 11008]"

// Shape and dtype, either unknown where only names are.
struct TensorType {
  std::optional<Shape> shape;
  std::optional<Dtype> dtype;

  // Product of the shape; nothing when unknown (readers refuse overflow).
  std::optional<int64_t> Elements() const;
  std::optional<int64_t> Bytes() const;

  bool operator==(const TensorType&) const = default;
  auto operator<=>(const TensorType&) const = default;
};

// The members "shape" and "dtype", null where unknown.
void WriteTypeMembers(JsonWriter& json, const TensorType& type);

struct Tensor {
  std::string_view name;
  uint32_t type = 0;  // index into Manifest::types
};

// Text that stays where it is as long as this does.
class TextStore {
 public:
  std::string_view Keep(std::string_view text);

 private:
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

// Names are views into the text of `source`, or into `texts` where that does
// not have them as they are.
struct Manifest {
  std::vector<Tensor> tensors;    // in the file's order, names distinct
  std::vector<TensorType> types;  // each distinct one once
  std::string model;              // as the file says, may be empty
  std::string naming;
  // The separator of path parts: '/', '.', or 0 where no name holds either.
  char separator = 0;
  SourceRef source;  // for messages
  std::shared_ptr<TextStore> texts;
  // Numbers of the tensors in the order of their names' bytes; empty: not
  // sorted yet.
  std::vector<uint32_t> by_name;
  // Whether all names are known to be plain text (source/plain_text.h).
  bool plain_names = false;
  std::vector<std::string> notes;  // such as "names only: no file is present"

  const TensorType& TypeOf(const Tensor& tensor) const {
    return types[tensor.type];
  }
};

// Interns types while a manifest is read.
class ManifestBuilder {
 public:
  // The name is kept, unless it is part of the manifest's source.
  void Add(std::string_view name, TensorType type);
  Manifest Take();  // leaves the builder empty
  Manifest& manifest() { return manifest_; }

 private:
  Manifest manifest_;
  std::map<TensorType, uint32_t> ids_;
};

}  // namespace shardc

#endif  // SHARDC_MODEL_MANIFEST_H_
