// A parameter's type in an ordinary manifest: `{"shape": [8, 4], "dtype":
// "F32"}`, in either order, with its name where it has one.
#ifndef SHARDC_PARSE_PLAIN_LEAF_H_
#define SHARDC_PARSE_PLAIN_LEAF_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "model/type_numbers.h"
#include "source/plain_json.h"

namespace shardc {

// The types of parameters as they come, numbered.
class PlainLeaves {
 public:
  // The members of an object whose brace is taken, each once, and its end; its
  // type is kept. False for another object.
  bool Take(PlainJson& json) { return Fields(json, nullptr); }
  bool TakeNamed(PlainJson& json, std::string_view& name) {
    return Fields(json, &name);
  }

  std::vector<uint32_t> types;  // by parameter
  TypeNumbers numbers;

 private:
  bool Fields(PlainJson& json, std::string_view* name);
  bool DtypeOf(PlainJson& json, FlatType& type);

  std::string_view last_dtype_;  // empty: none yet
  Dtype dtype_ = Dtype::kF32;
};

// Names and their types, in order and sorted; false where a name stands twice.
bool TakeTensors(std::span<const std::string_view> names,
                 const PlainLeaves& leaves, Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_LEAF_H_
