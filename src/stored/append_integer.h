// Appends integers to a text in the two encodings that checkpoint formats use:
// little-endian with a fixed number of bytes, and varints.
#ifndef SHARDC_STORED_APPEND_INTEGER_H_
#define SHARDC_STORED_APPEND_INTEGER_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace shardc::stored {

// Appends the lowest `bytes` bytes of the value in little-endian order.
inline void AppendLittle(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xFF);
  }
}

// Appends the value as a varint: seven bits in each byte, low bits first. Every
// byte except the last one has its highest bit set.
inline void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>((value & 0x7F) | 0x80);
  }
  out += static_cast<char>(value);
}

}  // namespace shardc::stored

#endif  // SHARDC_STORED_APPEND_INTEGER_H_
