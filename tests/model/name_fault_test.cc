#include "model/name.h"

#include <doctest/doctest.h>

#include <string>

namespace shardc {
namespace {

TEST_CASE("which texts cannot be a parameter's name") {
  using namespace std::string_literals;
  CHECK(ParameterNameFault("") == "");
  for (const std::string& name :
       {"a"s, " "s, "a b"s, "a~"s, "\"\\"s, "gr\xc3\xb6\xc3\x9f"s + "e"s,
        // U+00A0, U+00C0 and U+0880, whose bytes are near those of U+0080.
        "a\xc2\xa0"s, "\xc3\x80"s, "\xe0\xa2\x80"s}) {
    CAPTURE(name);
    CHECK(ParameterNameFault(name) == "");
  }
  CHECK(ParameterNameFault("a\0b"s) == "the name `a\\x00b` holds a NUL");
  for (const std::string& name : {"\x01"s, "a\n"s, "a\x1f"s, "\x7f"s,
                                  "a\x7f"s + "b"s, "\xc2\x80"s, "a\xc2\x9f"s}) {
    CAPTURE(name);
    CHECK(ParameterNameFault(name).ends_with(" holds a control character"));
  }
}

}  // namespace
}  // namespace shardc
