#include "source/utf8.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace shardc {
namespace {

TEST_CASE("url_base64: texts of RFC 4648 and the digits of its section 5") {
  const struct {
    std::string bytes, text;
  } cases[] = {{"", ""},
               {"f", "Zg=="},
               {"fo", "Zm8="},
               {"foo", "Zm9v"},
               {"foobar", "Zm9vYmFy"},
               {"\xFB\xEF\xBE", "----"},
               {"\xFF\xFF\xFF", "____"}};
  for (const auto& [bytes, text] : cases) {
    CHECK(EncodeUrlBase64(bytes) == text);
    CHECK(DecodeUrlBase64(text) == bytes);
  }
}

TEST_CASE("url_base64: every text of bytes is encoded and decoded") {
  std::mt19937 random(7);
  for (size_t length = 0; length < 100; ++length) {
    std::string bytes(length, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    CHECK(DecodeUrlBase64(EncodeUrlBase64(bytes)) == bytes);
  }
}

TEST_CASE("url_base64: other texts are refused") {
  for (const char* text :
       {"Zg", "Zg=", "Zm9v=", "Zm+v", "Zm/v", "Z=9v", "===="}) {
    CHECK_FALSE(DecodeUrlBase64(text));
  }
}

}  // namespace
}  // namespace shardc
