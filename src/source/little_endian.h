// Reads unsigned integers whose low byte comes first, as files of tensors and
// zip archives store them.
#ifndef SHARDC_SOURCE_LITTLE_ENDIAN_H_
#define SHARDC_SOURCE_LITTLE_ENDIAN_H_

#include <cstdint>
#include <string_view>

namespace shardc {

// Returns the number that consists of all bytes in `bytes`, at most 8.
constexpr uint64_t LittleEndian(std::string_view bytes) {
  uint64_t out = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    out = out << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return out;
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_LITTLE_ENDIAN_H_
