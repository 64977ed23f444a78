#include "source/plain_json.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace shardc {
namespace {

struct Numbered {
  const char* text;
  int64_t value;  // -1: not plain
};

// The cases include the limits of 64 bits, at which nothing may overflow.
TEST_CASE("numbers of up to 18 digits are read, all others left") {
  constexpr Numbered kCases[] = {
      {"0,", 0},
      {"7]", 7},
      {"4096}", 4096},
      {"999999999999999999,", 999999999999999999},
      {"1000000000000000000,", -1},
      {"9223372036854775807,", -1},
      {"9223372036854775808,", -1},
      {"18446744073709551616,", -1},
      {"99999999999999999999999999999999999999,", -1},
      {"012,", -1},
      {"-1,", -1},
      {"x,", -1},
      {"12", -1},  // at the end of the text, more digits might follow
      {"", -1},
  };
  for (const Numbered& one : kCases) {
    CAPTURE(one.text);
    PlainJson json(one.text);
    int64_t value = 0;
    const bool read = json.Number(value);
    CHECK(read == (one.value >= 0));
    if (read) CHECK(value == one.value);
  }
}

}  // namespace
}  // namespace shardc
