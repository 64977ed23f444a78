#include "match/re2_finder.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace shardc {
namespace {

TEST_CASE("what a pattern requires") {
  struct Required {
    std::string pattern;
    std::vector<AnyOfTexts> texts;
  };
  const std::vector<Required> cases = {
      {"attn/kernel$", {{"attn/kernel"}}},
      {"(block|blick_17).*17$", {{"block", "blick_17"}, {"17"}}},
      {"(a|b|c)*xx.*yy.*weight$", {{"xx"}, {"yy"}, {"weight"}}},
      {"layers/\\d+/q", {{"layers/"}, {"/q"}}},
      {"a(bc)d", {{"abcd"}}},
      {"(ab){2,3}c", {{"ab"}, {"c"}}},
      {"(ab)?c+", {{"c"}}},
      {"a\\bb", {{"ab"}}},
      {"q|", {}},
      {"q|.*", {}},
      {"up|down", {{"up", "down"}}},
      {"(?i)kernel", {}},
      {"\\x{e9}a", {{"a"}}},
      {"[q]x", {{"x"}}},
      {".*", {}},
      {"\\pL", {}},
      {"", {}},
  };
  for (const Required& one : cases) {
    CHECK_MESSAGE(RequiredTexts(one.pattern) == one.texts, one.pattern);
  }
}

}  // namespace
}  // namespace shardc
