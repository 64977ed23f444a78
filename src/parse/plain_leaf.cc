// Reads one parameter of a manifest: an object with the members `dtype` and
// `shape`. In the list form of a manifest, the object also has the member
// `name`. The members may be in any order, and each must occur exactly once. A
// pair of dtype and shape is called a type, and each distinct type gets a
// number:
//
//   {"dtype": "F32", "shape": [8, 4]}  ->  type 0, if this is the first type
//                                          that the manifest contains
#include "parse/plain_leaf.h"

#include <optional>
#include <utility>

#include "model/tensor_names.h"
#include "source/text_order.h"

namespace shardc {
namespace {

bool TakeShape(PlainJson& json, FlatType& type) {
  if (json.Next('n')) return json.TakeWord("null");
  return type.TakeShape(json);
}

}  // namespace

void PlainLeaves::ReserveFor(size_t text_bytes) {
  // The length of the shortest possible parameter,
  // `"a":{"shape":[],"dtype":null},`.
  constexpr size_t kLeastBytes = 30;
  tensors.reserve(text_bytes / kLeastBytes);
}

bool PlainLeaves::Fields(PlainJson& json, std::string_view* name,
                         uint32_t& number) {
  enum : unsigned { kName = 1, kShape = 2, kDtype = 4 };
  const unsigned wanted = (name == nullptr ? 0U : kName) | kShape | kDtype;
  FlatType type;
  unsigned seen = 0;
  do {
    if (!json.Take('"')) return false;
    unsigned field = 0;
    bool good = false;
    if (name != nullptr && json.TakeKey("name\"")) {
      field = kName;
      good = json.String(*name);
    } else if (json.TakeKey("shape\"")) {
      field = kShape;
      good = TakeShape(json, type);
    } else if (json.TakeKey("dtype\"")) {
      field = kDtype;
      good = DtypeOf(json, type);
    }
    if (!good || (seen & field) != 0) return false;
    seen |= field;
  } while (json.Take(','));
  if (seen != wanted || !json.Take('}')) return false;
  const auto known = numbers.Of(type);
  number = known.value_or(0);
  return known.has_value();
}

bool PlainLeaves::DtypeOf(PlainJson& json, FlatType& type) {
  if (json.Next('n')) return json.TakeWord("null");
  std::string_view text;
  if (!json.String(text)) return false;
  if (last_dtype_.empty() || text != last_dtype_) {
    const auto dtype = ParseDtype(text);
    if (!dtype) return false;
    last_dtype_ = text;
    dtype_ = *dtype;
  }
  type.dtype = dtype_;
  return true;
}

bool TakeTensors(PlainLeaves leaves, Manifest& manifest) {
  manifest.tensors = std::move(leaves.tensors);
  TextOrder sorted = OrderOf(NamesOf(manifest.tensors));
  if (!sorted.distinct) return false;
  manifest.by_name = std::move(sorted.order);
  manifest.plain_names = true;
  manifest.types = leaves.numbers.Take();
  return true;
}

}  // namespace shardc
