#include "lint/analysis/pattern_faults.h"

#include <utility>

#include "doctest/doctest.h"

namespace shardc {
namespace {

TEST_CASE("dots of paths are escaped, others are not") {
  const std::pair<const char*, const char*> cases[] = {
      {"mlp.up.weight", R"(mlp\.up\.weight)"},
      {R"(mlp\.up.weight$)", R"(mlp\.up\.weight$)"},
      {R"(layers.\d+.up)", R"(layers\.\d+\.up)"},
      {"(q|k).weight", R"((q|k)\.weight)"},
      {"a.(b|c)", R"(a\.(b|c))"},
      {"[^]a.b].c", R"([^]a.b]\.c)"},
      {R"(\Qa.b\E.c)", R"(\Qa.b\E\.c)"},
  };
  for (const auto& one : cases) {
    const char* pattern = one.first;
    const char* want = one.second;
    CAPTURE(pattern);
    CHECK(EscapeDots(pattern) == std::string(want));
  }
  for (const char* pattern :
       {".*", "a.*b", "a.+", "[a.b]", R"(a\.b)", ".a", "a.", "a.?b", "",
        "[]a.b]", "[[:alpha:]a.b]", R"(\Qa.b\E)", R"(\Qa.b)"}) {
    CAPTURE(pattern);
    CHECK_FALSE(EscapeDots(pattern));
  }
}

TEST_CASE("a repetition gets the lower bound that Python's re assumes") {
  const std::pair<const char*, const char*> cases[] = {
      {R"(layers\.[0-9]{,2}\.w$)", R"(layers\.[0-9]{0,2}\.w$)"},
      {"a{,3}b{,12}", "a{0,3}b{0,12}"},
      {"(q|k){,}", "(q|k){0,}"},
  };
  for (const auto& one : cases) {
    const char* pattern = one.first;
    const char* want = one.second;
    CAPTURE(pattern);
    CHECK(WithLowerBounds(pattern) == std::string(want));
  }
  for (const char* pattern :
       {"a{1,3}", "a{2}", "{,3}", "a{,x}", "a{,3", "a[{,3}]", R"(a\{,3})",
        R"(\Qa{,3}\E)", "a{", "a{,", ""}) {
    CAPTURE(pattern);
    CHECK_FALSE(WithLowerBounds(pattern));
  }
}

TEST_CASE("a pattern is ended with $, alternatives as a group") {
  CHECK(WithEnd("kernel") == "kernel$");
  CHECK(WithEnd("q/kernel|k/kernel") == "(?:q/kernel|k/kernel)$");
  CHECK(WithEnd("q/kernel|k/kernel$") == "(?:q/kernel|k/kernel$)$");
  CHECK(WithEnd("attn/q", R"(\b)") == R"(attn/q\b)");
  CHECK(WithEnd("q|k", R"(\b)") == R"((?:q|k)\b)");
}

}  // namespace
}  // namespace shardc
