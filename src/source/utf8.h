// Code points and their UTF-8 bytes.
#ifndef SHARDC_SOURCE_UTF8_H_
#define SHARDC_SOURCE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardc {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

// `length` in bytes; 0 where the bytes are not well-formed UTF-8 (overlong
// forms and surrogates are not).
struct CodePoint {
  uint32_t value = 0;
  size_t length = 0;
};

// The code point that begins at `text[at]`, which must be inside.
CodePoint DecodeUtf8(std::string_view text, size_t at);

// `point` is at most kLastCodePoint.
void AppendUtf8(std::string& out, uint32_t point);

// Whether a terminal acts on it, or it reorders or breaks the text around it,
// or nobody sees it.
bool IsHidden(uint32_t point);

// Whether all of it is well-formed; otherwise `*bad_offset` is the first bad
// byte.
bool IsUtf8(std::string_view text, size_t* bad_offset = nullptr);

}  // namespace shardc

#endif  // SHARDC_SOURCE_UTF8_H_
