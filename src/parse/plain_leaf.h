// Reads a parameter's type in a common manifest: `{"shape": [8, 4], "dtype":
// "F32"}`, in either order, with the name if the format has it there.
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

// Collects the names of parameters and their numbered types.
class PlainLeaves {
 public:
  // Reserves space for as many parameters as a text of that many bytes can
  // hold. Memory that stays unused is never touched.
  void ReserveFor(size_t text_bytes);

  // Reads the rest of an object after its opening brace and stores its type.
  // Returns false for other or repeated members.
  bool Take(PlainJson& json) { return Fields(json, nullptr); }
  bool TakeNamed(PlainJson& json, std::string_view& name) {
    return Fields(json, &name);
  }

  std::vector<std::string_view> names;
  std::vector<uint32_t> types;  // one per name
  TypeNumbers numbers;

 private:
  bool Fields(PlainJson& json, std::string_view* name);
  bool DtypeOf(PlainJson& json, FlatType& type);

  std::string_view last_dtype_;  // empty: none yet
  Dtype dtype_ = Dtype::kF32;
};

// Moves names and types into `manifest`, sorted. Returns false if a name occurs
// twice.
bool TakeTensors(const PlainLeaves& leaves, Manifest& manifest);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_LEAF_H_
