// A parameter's type in an ordinary manifest: `{"shape": [8, 4], "dtype":
// "F32"}`, in either order, with its name where it has one.
#ifndef SHARDC_PARSE_PLAIN_LEAF_H_
#define SHARDC_PARSE_PLAIN_LEAF_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "model/type_numbers.h"
#include "source/plain_json.h"

namespace shardc {

// The names of parameters and their types, numbered, as they come.
class PlainLeaves {
 public:
  // Room for as many as a text of so many bytes can hold: what is not used of
  // the memory is never touched.
  void ReserveFor(size_t text_bytes);

  // The members of an object whose brace is taken, each once, and its end; its
  // type is kept. False for another object.
  bool Take(PlainJson& json) { return Fields(json, nullptr); }
  bool TakeNamed(PlainJson& json, std::string_view& name) {
    return Fields(json, &name);
  }

  std::vector<std::string_view> names;
  std::vector<uint32_t> types;  // by name
  TypeNumbers numbers;

 private:
  bool Fields(PlainJson& json, std::string_view* name);
  bool DtypeOf(PlainJson& json, FlatType& type);

  std::string_view last_dtype_;  // empty: none yet
  Dtype dtype_ = Dtype::kF32;
};

// Names and their types, in order and sorted; false where a name stands twice.
bool TakeTensors(const PlainLeaves& leaves, Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_LEAF_H_
