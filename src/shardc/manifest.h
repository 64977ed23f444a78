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
  std::optional<Shape> shape;  // nothing: not known
  std::string dtype;           // "BF16", as safetensors says; empty: not known
};

class Manifest {
 public:
  size_t size() const;            // parameters
  Tensor at(size_t index) const;  // 0 <= index < size()
  // Parts of names are joined by `/` or `.`; 0 where no name has either.
  char separator() const;

  struct Inside;  // the library's own
  explicit Manifest(std::shared_ptr<const Inside> inside);
  const Inside& inside() const { return *inside_; }

 private:
  std::shared_ptr<const Inside> inside_;
};

// JSON (shardc-manifest(5)), a safetensors file, an index of several, or a
// folder of them; only headers are read. "-" is standard input. Errors: it
// cannot be read, a name is there twice, sizes do not fit in 64 bits.
std::optional<Manifest> ReadManifest(const std::string& path,
                                     Findings& findings);
// Of what the program has itself, in this order. Errors as above, and a dtype
// that is not known.
std::optional<Manifest> MakeManifest(std::span<const Tensor> tensors,
                                     Findings& findings);

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_MANIFEST_H_
