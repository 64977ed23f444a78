// Reads a parameter's type in a common manifest: `{"shape": [8, 4], "dtype":
// "F32"}`, with the members in either order. In the list form of shardc's
// format the object also has the name.
#ifndef SHARDC_PARSE_PLAIN_LEAF_H_
#define SHARDC_PARSE_PLAIN_LEAF_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "model/type_numbers.h"
#include "source/plain_json.h"

namespace shardc {

// Collects the parameters of a manifest and their numbered types.
class PlainLeaves {
 public:
  // Reserves space for as many parameters as a text of that many bytes can
  // hold. Memory that stays unused is never touched.
  void ReserveFor(size_t text_bytes);

  // Reads the rest of an object after its opening brace and sets `type` to the
  // number of its type. Returns false for missing, other or repeated members,
  // for a dtype or shape that ParseDtype or FlatType does not parse, and for a
  // size that overflows.
  bool Take(PlainJson& json, uint32_t& type) {
    return Fields(json, nullptr, type);
  }
  bool TakeNamed(PlainJson& json, std::string_view& name, uint32_t& type) {
    return Fields(json, &name, type);
  }

  std::vector<Tensor> tensors;
  TypeNumbers numbers;

 private:
  bool Fields(PlainJson& json, std::string_view* name, uint32_t& type);
  bool DtypeOf(PlainJson& json, FlatType& type);

  std::string last_dtype_;  // a copy, as windows of text change; empty: none
  Dtype dtype_ = Dtype::kF32;
};

// Moves tensors and types into `manifest` and sets its `by_name`. Returns false
// if a name occurs twice.
bool TakeTensors(PlainLeaves leaves, Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_LEAF_H_
