// A model's parameters: names, shapes and data types.
#ifndef SHARDC_SHARDC_MANIFEST_H_
#define SHARDC_SHARDC_MANIFEST_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "shardc/findings.h"
#include "shardc/spec.h"

namespace shardc::SHARDC_V1 {

struct Tensor {
  std::string name;            // its path, such as `model.norm.weight`
  std::optional<Shape> shape;  // nullopt if unknown
  std::string dtype;           // "BF16", as in safetensors; empty if unknown
};

class Manifest {
 public:
  size_t size() const;            // number of parameters
  Tensor at(size_t index) const;  // 0 <= index < size()
  // Returns `/` or `.`, the character that separates the parts of names.
  // Returns 0 if no name contains either character.
  char separator() const;

  struct Inside;  // private to the library
  explicit Manifest(std::shared_ptr<const Inside> inside);
  const Inside& inside() const { return *inside_; }

 private:
  std::shared_ptr<const Inside> inside_;
};

// Reads a manifest in any format that `shardc --manifest` accepts: a JSON
// manifest (shardc-manifest(5)), a safetensors or GGUF file, an index, a
// directory and others. "-" is standard input. Errors include a file that
// cannot be read, a name that occurs twice, and sizes that do not fit in 64
// bits.
std::optional<Manifest> ReadManifest(const std::string& path,
                                     Findings& findings);
// Returns a manifest of the given tensors, in this order. Errors include an
// empty name, a name that occurs twice, an unknown dtype and a negative size.
std::optional<Manifest> MakeManifest(std::span<const Tensor> tensors,
                                     Findings& findings);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_MANIFEST_H_
