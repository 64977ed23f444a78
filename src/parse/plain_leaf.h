// Reads the type (dtype and shape) of a parameter in a manifest of the usual
// form: `{"shape": [8, 4], "dtype": "F32"}`, with the members in any order. In
// the list form of shardc's format, the object also contains the name.
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

// Collects the parameters of a manifest. Each distinct type (dtype and shape)
// gets a number.
class PlainLeaves {
 public:
  // Reserves space for as many parameters as a text of `text_bytes` bytes can
  // contain. The operating system assigns no physical memory to the unused
  // part.
  void ReserveFor(size_t text_bytes);

  // Reads the rest of an object after its opening brace and sets `type` to the
  // number of the parameter's type. Returns false in these cases: a member is
  // missing, unknown or repeated, ParseDtype cannot parse the dtype, FlatType
  // cannot parse the shape, or a size overflows.
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

  // The text of the dtype that was read last; empty at first. It is a copy,
  // because the text's buffer is overwritten when more of the file is read.
  std::string last_dtype_;
  Dtype dtype_ = Dtype::kF32;
};

// Moves the tensors and types into `manifest` and sets its `by_name`. Returns
// false if a name occurs twice.
bool TakeTensors(PlainLeaves leaves, Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_LEAF_H_
