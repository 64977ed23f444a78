// Decodes UTF-8. The first byte determines the length and the smallest value
// that may be encoded with it, so that overlong forms, surrogates and values
// above 10FFFF are detected by one comparison each:
//
//   C3 A4  ->  E4, length 2     C0 80, ED A0 80, F4 90 80 80  ->  length 0
#include "source/utf8.h"

#include <cstring>

namespace shardc {

CodePoint DecodeUtf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  size_t length = 0;
  uint32_t value = 0;
  uint32_t least = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2, value = lead & 0x1F, least = 0x80;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3, value = lead & 0x0F, least = 0x800;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4, value = lead & 0x07, least = 0x10000;
  } else {
    return {};
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < least || value > kLastCodePoint || surrogate) return {};
  return {value, length};
}

void AppendUtf8(std::string& out, uint32_t point) {
  const auto tail = [&](int shift) {
    out += static_cast<char>(0x80 | ((point >> shift) & 0x3F));
  };
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xC0 | point >> 6);
    tail(0);
  } else if (point < 0x10000) {
    out += static_cast<char>(0xE0 | point >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

bool IsHidden(uint32_t point) {
  const uint32_t c = point;
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x00AD || c == 0x061C ||
         (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x2064) || (c >= 0x2066 && c <= 0x2069) ||
         c == 0xFEFF;
}

bool IsUtf8(std::string_view text, size_t* bad_offset) {
  for (size_t at = 0; at < text.size();) {
    // Eight ASCII bytes at a time: manifests are nearly all ASCII.
    uint64_t word = 0;
    while (at + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080u) != 0) break;
      at += sizeof(word);
    }
    if (at >= text.size()) break;
    const CodePoint point = DecodeUtf8(text, at);
    if (point.length == 0) {
      if (bad_offset != nullptr) *bad_offset = at;
      return false;
    }
    at += point.length;
  }
  return true;
}

}  // namespace shardc
