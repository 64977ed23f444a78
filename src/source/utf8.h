// Classes of characters, Unicode code points and their UTF-8 bytes.
#ifndef SHARDC_SOURCE_UTF8_H_
#define SHARDC_SOURCE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

// ASCII digits, ASCII letters, and what `\w` of a pattern matches: letters,
// digits and `_`.
constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool IsWordByte(char c) {
  return IsLetter(c) || IsDigit(c) || c == '_';
}

// A decoded code point. `length` is in bytes; 0 if the bytes are not
// well-formed UTF-8, which excludes overlong forms and surrogates.
struct CodePoint {
  uint32_t value = 0;
  size_t length = 0;
};

// Decodes the code point at `text[at]`; `at` must be inside the text.
CodePoint DecodeUtf8(std::string_view text, size_t at);

// Appends the UTF-8 bytes of `point`, which is at most kLastCodePoint.
void AppendUtf8(std::string& out, uint32_t point);

// Returns whether `point` is a control character, reorders or breaks the text
// around it (bidi controls, line separators), or is invisible but no space.
bool IsHidden(uint32_t point);

// Returns whether the text is well-formed UTF-8; if not, `*bad_offset` is the
// offset of the first bad byte.
bool IsUtf8(std::string_view text, size_t* bad_offset = nullptr);

// Returns the value of a byte as messages write it, such as 0x0a.
std::string HexByte(unsigned char byte);

std::string EncodeUrlBase64(std::string_view bytes);
// Returns the decoded bytes; nullopt for a text that is not padded base64.
std::optional<std::string> DecodeUrlBase64(std::string_view text);

}  // namespace shardc

#endif  // SHARDC_SOURCE_UTF8_H_
