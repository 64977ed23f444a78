// Encodes and decodes base64 with an alphabet that is safe in URLs: the digits
// for 62 and 63 are `-` and `_`. Three bytes (24 bits) are encoded as four
// digits of 6 bits each. If the last group has fewer than three bytes, it is
// padded with zero bits, and with `=` up to four characters. For example:
//
//   "w" is 01110111, the digits 011101 and 110000: "dw=="
#include "source/url_base64.h"

#include <cstddef>
#include <cstdint>

namespace shardc {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

}  // namespace

std::string EncodeUrlBase64(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 |
             (j < group.size() ? static_cast<unsigned char>(group[j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) {
      out += j <= group.size() ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> DecodeUrlBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count);
    bits &= (uint32_t{1} << count) - 1;
  }
  return out;
}

}  // namespace shardc
