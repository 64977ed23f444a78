// Without a byte order mark, the first characters decide. Each is ASCII, and
// its other bytes are zero, in the same order for all of them:
//
//   v\0 e\0 r\0   UTF-16, little endian     \0v \0e \0r   UTF-16, big endian
//
// A binary file of small integers has zero bytes too, but no such characters.
#include "source/encoding.h"

#include <cstddef>

namespace shardc {
namespace {

bool IsAsciiText(char c) {
  return (c >= ' ' && c <= '~') || c == '\t' || c == '\n' || c == '\r';
}

// Returns whether each unit of the text is one ASCII character, at `at` in the
// unit, and zero bytes.
bool HasUnits(std::string_view text, size_t unit_bytes, size_t at) {
  constexpr size_t kPeekedBytes = 32;
  if (text.empty() || text.size() % unit_bytes != 0) return false;
  const std::string_view head = text.substr(0, kPeekedBytes);
  for (size_t i = 0; i < head.size(); ++i) {
    const bool fits =
        i % unit_bytes == at ? IsAsciiText(head[i]) : head[i] == 0;
    if (!fits) return false;
  }
  return true;
}

}  // namespace

bool LooksLikeUtf16(std::string_view text) {
  using std::string_view_literals::operator""sv;
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
         text.starts_with("\0\0\xfe\xff"sv) || HasUnits(text, 2, 0) ||
         HasUnits(text, 2, 1) || HasUnits(text, 4, 0) || HasUnits(text, 4, 3);
}

}  // namespace shardc
