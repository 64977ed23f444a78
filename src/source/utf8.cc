// Decodes UTF-8. The first byte determines the number of bytes and the smallest
// code point that needs this number. A smaller code point is an overlong form
// and is refused. Surrogates and values above 10FFFF are refused as well, with
// a length of 0. For example:
//
//   C3 A4  ->  E4, length 2     C0 80, ED A0 80, F4 90 80 80  ->  length 0
#include "source/utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace shardc {
namespace {

struct Range {
  uint32_t first, last;
};

// The hidden characters, generated from the Unicode Character Database 14.0.0:
// the general categories Cc, Zl and Zp; Cf without
// Prepended_Concatenation_Mark; Bidi_Control; Default_Ignorable_Code_Point,
// which includes the tags, the variation selectors and the Hangul fillers; and
// U+2800, the Braille pattern without dots. A test of the command line
// generates the ranges again and compares them.
constexpr Range kHidden[] = {
    {0x0000, 0x001F},   {0x007F, 0x009F},   {0x00AD, 0x00AD},
    {0x034F, 0x034F},   {0x061C, 0x061C},   {0x115F, 0x1160},
    {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},
    {0x2028, 0x202E},   {0x2060, 0x206F},   {0x2800, 0x2800},
    {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
    {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0x13430, 0x13438},
    {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
};

}  // namespace

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
  const Range* const range = std::lower_bound(
      std::begin(kHidden), std::end(kHidden), point,
      [](const Range& one, uint32_t c) { return one.last < c; });
  return range != std::end(kHidden) && point >= range->first;
}

bool IsUtf8(std::string_view text, size_t* bad_offset) {
  for (size_t at = 0; at < text.size();) {
    // Skip eight ASCII bytes at a time, because manifests are nearly all ASCII.
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

std::string HexByte(unsigned char byte) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  return {'0', 'x', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
}

// Encodes and decodes base64 with an alphabet that is safe in URLs: the digits
// for 62 and 63 are `-` and `_`. Three bytes (24 bits) are encoded as four
// digits of 6 bits each. If the last group has fewer than three bytes, it is
// padded with zero bits, and with `=` up to four characters. For example:
//
//   "w" is 01110111, the digits 011101 and 110000: "dw=="

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
