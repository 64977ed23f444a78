// Reads the arrays of an instruction's type: element type and sizes.
#ifndef SHARDC_HLO_SHAPES_H_
#define SHARDC_HLO_SHAPES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "source/size.h"

namespace shardc::hlo {

struct Array {
  std::string_view element;  // the element type, such as "bf16"
  int64_t bits = 0;  // bits of one element; 0 for a token or an opaque value
  std::vector<int64_t> dims;

  Size Elements() const;
  Size Bytes() const;        // bytes of all elements, rounded up
  std::string Text() const;  // such as "bf16[8,128]"
  bool operator==(const Array&) const = default;
};

// Returns the arrays of a type, in the order of the text. Tuples may be nested.
// Layouts are ignored. A dynamic size such as `<=8` is read as 8. Reads no more
// than `most` arrays: to find whether a type is a single array, two suffice,
// and the state of a loop may be a tuple of all parameters.
std::vector<Array> ArraysOf(std::string_view type, size_t most = SIZE_MAX);
inline constexpr size_t kOneOrMore = 2;

}  // namespace shardc::hlo

#endif  // SHARDC_HLO_SHAPES_H_
