// Reads the arrays of an instruction's type. The first number in the name of an
// element type is the number of bits of an element. The exception is `pred`,
// which has 8 bits:
//
//   (bf16[8,128]{1,0:T(8,128)(2,1)}, /*index=1*/u32[]{:S(2)})
//   ->  bf16, 16 bits, 8 x 128; u32, 32 bits, no dimensions
#include "hlo/shapes.h"

#include <algorithm>
#include <cctype>

#include "hlo/instruction.h"

namespace shardc::hlo {
namespace {

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)); }

int64_t BitsOf(std::string_view element) {
  if (element == "pred") return 8;
  const size_t digit = element.find_first_of("0123456789");
  if (digit == std::string_view::npos) return 0;  // a token or an opaque value
  return std::min<int64_t>(LeadingNumber(element.substr(digit)).value_or(0),
                           128);
}

}  // namespace

Size Array::Elements() const {
  Size out = 1;
  for (const int64_t dim : dims) out *= dim;
  return out;
}

Size Array::Bytes() const {
  if (bits % 8 == 0) return Elements() * (bits / 8);
  return (Elements() * bits + 7) / 8;
}

std::string Array::Text() const {
  std::string out(element);
  out += '[';
  for (size_t i = 0; i < dims.size(); ++i) {
    out += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  }
  return out + ']';
}

std::vector<Array> ArraysOf(std::string_view type, size_t most) {
  std::vector<Array> out;
  size_t i = 0;
  while (i < type.size() && out.size() < most) {
    if (type[i] == '{') {  // a layout
      i = std::min(type.find('}', i), type.size() - 1) + 1;
      continue;
    }
    if (type.substr(i, 2) == "/*") {
      i = std::min(type.find("*/", i + 2), type.size() - 2) + 2;
      continue;
    }
    if (!IsLetter(type[i])) {
      ++i;
      continue;
    }
    const size_t open = type.find('[', i);
    const size_t close = type.find(']', i);
    if (open >= close || close == std::string_view::npos) break;
    Array array{type.substr(i, open - i), 0, {}};
    array.bits = BitsOf(array.element);
    std::string_view sizes = type.substr(open + 1, close - open - 1);
    for (std::string_view size; NextItem(sizes, size);) {
      if (size.starts_with("<=")) size.remove_prefix(2);
      array.dims.push_back(
          std::max<int64_t>(LeadingNumber(size).value_or(Size::kTooLarge), 0));
    }
    out.push_back(std::move(array));
    i = close + 1;
  }
  return out;
}

}  // namespace shardc::hlo
