#include "source/utf8.h"

#include <doctest/doctest.h>

#include <string>

namespace shardc {
namespace {

TEST_CASE("utf8: every code point there and back") {
  for (uint32_t point = 0; point <= kLastCodePoint; ++point) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    std::string text = "x";
    AppendUtf8(text, point);
    const CodePoint read = DecodeUtf8(text, 1);
    if (read.value != point || read.length + 1 != text.size()) {
      FAIL("U+", point);
    }
  }
}

TEST_CASE("utf8: what is not well formed has no length") {
  for (const char* text : {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80",
                           "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    CHECK(DecodeUtf8(text, 0).length == 0);
    CHECK_FALSE(IsUtf8(text));
  }
}

TEST_CASE("utf8: wherever the bad byte is") {
  const char* bad[] = {"\x80",         "\xC1\xBF",         "\xE0\x80\x80",
                       "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
                       "\xC3",         "\xE2\x82"};
  for (const char* bytes : bad) {
    for (size_t before = 0; before < 20; ++before) {
      size_t at = 99;
      CHECK_FALSE(IsUtf8(std::string(before, 'x') + bytes + "tail", &at));
      CHECK(at == before);
    }
  }
  CHECK(IsUtf8("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF"));
}

TEST_CASE("utf8: code points") {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFF";
  CHECK(DecodeUtf8(text, 0).value == 'a');
  CHECK(DecodeUtf8(text, 1).value == 0xE9);
  CHECK(DecodeUtf8(text, 3).value == 0x20AC);
  CHECK(DecodeUtf8(text, 6).value == 0x1F600);
  CHECK(DecodeUtf8(text, 6).length == 4);
  CHECK(DecodeUtf8(text, 7).length == 0);   // in the middle of one
  CHECK(DecodeUtf8(text, 10).length == 0);  // no such byte
}

}  // namespace
}  // namespace shardc
