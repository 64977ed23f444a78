// Tests which patterns are globs, and what they are as regular expressions.
#include "match/globs.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <string_view>

namespace shardc {
namespace {

struct Row {
  std::string_view pattern;
  std::string_view regex;  // empty if the pattern is no glob
};

TEST_CASE("globs are distinguished from regular expressions") {
  constexpr Row kRows[] = {
      {"*.q_proj.weight", ".*\\.q_proj\\.weight"},
      {"*/kernel", ".*/kernel"},
      {"*\\.weight$", ".*\\.weight$"},
      {"layers/*/attn/**", "layers/.*/attn/.*"},
      {"model/**/kernel", "model/.*/kernel"},
      {"model/layers/*/kernel$", "model/layers/.*/kernel$"},
      {"layers.{0..31}", "layers\\.[0-9]+"},
      {"layers\\.{0..31}\\.mlp", "layers\\.[0-9]+\\.mlp"},
      {"{q,k,v}_proj", "(q|k|v)_proj"},
      {"{q,k,v}_proj\\.weight", "(q|k|v)_proj\\.weight"},
      {"attn\\.(q|k)_{a,b}", "attn\\.(q|k)_(a|b)"},
      // Regular expressions.
      {"layers.*.weight", ""},
      {".*", ""},
      {"layers\\.\\d{1,3}\\.", ""},
      {"a{2}", ""},
      {"a{2,}", ""},
      {"a[b]{,5}", ""},
      {"x{a..b}", ""},
      {"x{a", ""},
      {"(a|b)*", ""},
      {"a/*b", ""},
      {"\\*\\*", ""},
      {"", ""},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.pattern);
    const auto regex = RegexOfGlob(row.pattern);
    CHECK(regex.value_or("") == row.regex);
  }
}

}  // namespace
}  // namespace shardc
