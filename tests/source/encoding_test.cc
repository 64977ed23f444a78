#include "source/encoding.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace shardc {
namespace {

// Returns a text of ASCII in units of so many bytes, with the characters at
// `at` in each.
std::string Units(std::string_view text, size_t unit_bytes, size_t at) {
  std::string out(text.size() * unit_bytes, '\0');
  for (size_t i = 0; i < text.size(); ++i) out[i * unit_bytes + at] = text[i];
  return out;
}

TEST_CASE("UTF-16 and UTF-32 are recognised") {
  const std::string_view text = "{\"a\": 1,\n\t\"b\": [2, 3, 4, 5]}";
  for (const size_t unit_bytes : {size_t{2}, size_t{4}}) {
    for (const size_t at : {size_t{0}, unit_bytes - 1}) {
      CAPTURE(unit_bytes);
      CAPTURE(at);
      CHECK(LooksLikeUtf16(Units(text, unit_bytes, at)));
      CHECK(LooksLikeUtf16(Units("a", unit_bytes, at)));
    }
  }
  CHECK(LooksLikeUtf16("\xff\xfe"));
  CHECK(LooksLikeUtf16("\xfe\xff"));
}

TEST_CASE("other texts and binary files are not UTF-16") {
  const std::string zero(1, '\0');
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("{\"a\": 1}"),
        // A byte order mark of UTF-8, and UTF-8 with a NUL inside.
        std::string("\xef\xbb\xbf{}"), "ab" + zero + "d",
        // Integers of 4 and 8 bytes, of which the first is an ASCII character.
        "A" + std::string(3, '\0') + "\x01" + std::string(3, '\0'),
        "@" + std::string(7, '\0') + "{}", std::string(8, '\0')}) {
    CAPTURE(text);
    CHECK_FALSE(LooksLikeUtf16(text));
  }
}

}  // namespace
}  // namespace shardc
