#include "source/sink.h"

#include <doctest/doctest.h>

#include <string>

namespace shardc {
namespace {

bool Matches(std::string_view expected, std::string_view written) {
  MatchingSink sink(expected);
  for (const char c : written) sink.Put(c);
  return sink.Matches();
}

TEST_CASE("a sink matches the same bytes, no more and no fewer") {
  CHECK(Matches("", ""));
  CHECK(Matches("abc", "abc"));
  CHECK_FALSE(Matches("abc", "ab"));
  CHECK_FALSE(Matches("abc", "abcd"));
  CHECK_FALSE(Matches("abc", "abd"));
  // The text is longer than several buffers. The difference is in the first, a
  // middle and the last one.
  const std::string many(10000, 'x');
  CHECK(Matches(many, many));
  for (const size_t at : {size_t{0}, size_t{4096}, size_t{9999}}) {
    std::string other = many;
    other[at] = 'y';
    CHECK_FALSE(Matches(many, other));
  }
}

}  // namespace
}  // namespace shardc
