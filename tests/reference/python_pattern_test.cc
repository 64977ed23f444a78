#include "reference/python_pattern.h"

#include <doctest/doctest.h>

#include "match/match.h"

namespace shardc::reference {
namespace {

// Searches the name for the translation of a Python pattern. Returns "found" or
// "not found"; "invalid" if the pattern has an error; "python only" if RE2 has
// no equivalent. The first three are what Python's re.search gives.
std::string Search(std::string_view pattern, std::string_view name) {
  const PythonPattern read = ReadPythonPattern(pattern);
  if (read.syntax == PythonSyntax::kPythonOnly) return "python only";
  if (read.syntax == PythonSyntax::kInvalid) return "invalid";
  Findings findings;
  const auto regex = Regex::Compile({read.re2, {}, '/'}, findings);
  if (!regex) return "invalid";
  return regex->Found(name) ? "found" : "not found";
}

TEST_CASE("patterns mean what Python means") {
  struct {
    std::string_view pattern, name, expected;
  } const cases[] = {
      {"", "", "found"},
      {"kernel$", "a/kernel", "found"},
      {"kernel\\Z", "a/kernel", "found"},
      {"kernel\\Z", "kernel/a", "not found"},
      {"\\Aa", "ba", "not found"},
      {"[[:alpha:]]", "abc", "not found"},
      {"[[:alpha:]]", "a]", "found"},
      {"[]a]", "]", "found"},
      {"[^]a]", "]a", "not found"},
      {"[a\\-z]", "-", "found"},
      {"\\/", "a/b", "found"},
      {"\\_x\\ y", "_x y", "found"},
      {"\\d", "\xd9\xa3", "found"},  // ARABIC-INDIC DIGIT THREE
      {"^\\w$", "\xc3\xa9", "found"},
      {"[\\w.]", "\xc3\xa9", "found"},
      {"\\W", "ab", "not found"},
      {"\\s",
       "a\xc2\xa0"
       "b",
       "found"},
      {"\\x61\\u0062\\143", "abc", "found"},
      {"[\\141]", "a", "found"},
      {"a{,2}b", "b", "found"},
      {"a{,}b", "aab", "found"},
      {"a{x}", "a{x}", "found"},
      {"{2}", "{2}", "invalid"},
      {"a{2}{3}", "aaaaaa", "invalid"},
      {"(?i)MODEL", "model", "found"},
      {"(?#note)(?i)MODEL", "model", "found"},
      {"(?u)x", "x", "found"},
      {"a(?i)b", "ab", "invalid"},
      {"(?i:A)b", "aB", "not found"},
      {"(?-i:a)", "a", "found"},
      {"(?P<n>a)b", "ab", "found"},
      {"a*?b", "aab", "found"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.pattern);
    CHECK(Search(c.pattern, c.name) == c.expected);
  }
}

TEST_CASE("what Python refuses") {
  for (std::string_view pattern : {"(",
                                   ")",
                                   "[a",
                                   "*a",
                                   "a**",
                                   "a|*",
                                   "^*",
                                   "\\b+",
                                   "a{2,1}",
                                   "(?P<n",
                                   "(?P<n>a)(?P<n>b)",
                                   "(?P<1>a)",
                                   "(?<n>a)",
                                   "\\",
                                   "\\q",
                                   "\\z",
                                   "\\C",
                                   "\\Qa\\E",
                                   "\\pL",
                                   "\\1",
                                   "(?P=n)",
                                   "[z-a]",
                                   "[a-\\d]",
                                   "[\\q]",
                                   "\\x6",
                                   "(?Q)",
                                   "(?L)a",
                                   "(?",
                                   "(?=a"}) {
    CAPTURE(pattern);
    CHECK(Search(pattern, "a") == "invalid");
  }
}

TEST_CASE("what only Python has") {
  for (std::string_view pattern :
       {"(?=a)", "(?!a)b", "(?<=a)b", "(?<!a)b", "(a)\\1", "(?P<n>a)(?P=n)",
        "(a)?(?(1)b|c)", "(?>a)b", "a++", "a{2}+", "(?x)a b", "\\N{DIGIT ONE}",
        "a{1001}"}) {
    CAPTURE(pattern);
    CHECK(Search(pattern, "aab") == "python only");
  }
}

}  // namespace
}  // namespace shardc::reference
