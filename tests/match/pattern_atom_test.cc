#include "match/re2_finder.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace shardc {
namespace {

// Returns the parts of a pattern, with a space between two of them.
std::string Atoms(std::string_view pattern) {
  std::string out;
  for (size_t at = 0; at < pattern.size();) {
    const size_t end = AtomEnd(pattern, at);
    REQUIRE(end > at);
    REQUIRE(end <= pattern.size());
    out += (out.empty() ? "" : " ") + std::string(pattern.substr(at, end - at));
    at = end;
  }
  return out;
}

TEST_CASE("escapes, quoted texts and classes are one part each") {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 14>
      kCases = {{{"", ""},
                 {"ab", "a b"},
                 {R"(\d.\.)", R"(\d . \.)"},
                 {R"(\x{600}{2})", R"(\x{600} { 2 })"},
                 {R"(\p{Greek}\PL)", R"(\p{Greek} \P L)"},
                 {R"(\Qa.(?=\E(?=b))", R"(\Qa.(?=\E ( ? = b ))"},
                 {"[a.]b", "[a.] b"},
                 {"[]a]b", "[]a] b"},
                 {"[^]a]b", "[^]a] b"},
                 {R"([\]a]b)", R"([\]a] b)"},
                 {"[[:alpha:].]b", "[[:alpha:].] b"},
                 {R"(\Qa)", R"(\Qa)"},
                 {"[ab", "[ab"},
                 {"a\\", "a \\"}}};
  for (const auto& [pattern, want] : kCases) {
    CHECK(Atoms(pattern) == std::string(want));
  }
}

}  // namespace
}  // namespace shardc
