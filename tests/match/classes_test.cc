// The classes of characters, next to RE2's tables of Unicode.
#include "match/automaton/classes.h"

#include <doctest/doctest.h>
#include <re2/re2.h>

#include <algorithm>
#include <string>

#include "match/match.h"
#include "match/unicode_pattern.h"
#include "source/utf8.h"

namespace shardc {
namespace {

// Returns the ranges of the characters that the class matches.
CharSet MatchedBy(const char* class_text) {
  const RE2 re(class_text);
  REQUIRE(re.ok());
  CharSet out;
  for (uint32_t point = 0; point <= kLastCodePoint; ++point) {
    if (point == 0xD800) point = 0xE000;  // The surrogates are no characters.
    std::string text;
    AppendUtf8(text, point);
    if (!RE2::FullMatch(text, re)) continue;
    if (!out.empty() && out.back().high + 1 == point) {
      out.back().high = point;
    } else {
      out.push_back({point, point});
    }
  }
  return out;
}

CharSet SetOf(std::span<const CodeRange> ranges) {
  return {ranges.begin(), ranges.end()};
}

TEST_CASE("digits, spaces and letters are those of Unicode") {
  const bool digits = SetOf(DigitRanges()) == MatchedBy(R"(\p{Nd})");
  const bool spaces =
      SetOf(SpaceRanges()) == MatchedBy(R"([\t\n\v\f\r\x1c-\x1f \x{85}\pZ])");
  const bool words = SetOf(WordRanges()) == MatchedBy(R"([_\pL\pN])");
  CHECK(digits);
  CHECK(spaces);
  CHECK(words);
}

TEST_CASE("classes are written for RE2 wherever they stand") {
  CHECK(WithPythonClasses(R"(a\d+\.[\w-]\\w)") ==
        R"(a(?-i:[\p{Nd}])+\.[_\pL\pN-]\\w)");
  CHECK(
      WithPythonClasses(R"(\W[^\s\D])")
          .starts_with(
              R"((?-i:[^_\pL\pN])[^\t\n\v\f\r\x1c-\x1f \x{85}\pZ\x{0}-\x{2F})"));
  for (const char* same :
       {R"(\Q\w\E)", R"([[:word:]]\pL)", R"(\\d\.)", "q", R"(\bq)"}) {
    CHECK(WithPythonClasses(same) == same);
  }
}

// Returns whether both engines find the pattern in the name, after a check that
// they agree.
bool Found(const std::string& text, std::string_view name) {
  const Pattern pattern{text, {}, '/'};
  Findings findings;
  const auto matcher = Matcher::Compile({&pattern, 1}, findings);
  REQUIRE(matcher);
  const std::vector<std::string_view> names = {name};
  const bool found = matcher->Match(names, '/').first[0] == 0;
  const MatchOptions by_re2{.threads = 1, .engine = Engine::kRe2};
  CHECK((matcher->Match(names, '/', by_re2).first[0] == 0) == found);
  CHECK(matcher->Find(0, name, '/').has_value() == found);
  const auto regex = Regex::Compile(pattern, findings);
  REQUIRE(regex);
  CHECK(regex->Found(name) == found);
  return found;
}

TEST_CASE("classes and word edges have the characters that Python's have") {
  struct Case {
    const char* pattern;
    const char* name;
    bool found;
  };
  // Each result is that of Python's re.search.
  for (const Case& one : {
           Case{R"(\w+/kernel)", "é/kernel", true},
           Case{R"(^\w+$)", "日本語", true},
           Case{R"(^\w$)", "e\xCC\x81", false},  // A combining accent.
           Case{R"(^\w$)", "²", true},
           Case{R"(^\d+$)", "٣", true},
           Case{R"(^\d$)", "²", false},
           Case{R"(^layers/[\d.]+/w)", "layers/٣/w", true},
           Case{R"(a\sb)",
                "a\xC2\xA0"
                "b",
                true},
           Case{R"(a\Sb)", "aéb", true},
           Case{R"(\W)", "é", false},
           Case{R"([^\W\d_]+$)", "é", true},
           Case{R"([^\W\d_])", "٣_", false},
           Case{R"([\W\d])", "é", false},
           Case{R"([\D])", "٣", false},
           Case{R"((?i)^\w$)", "\xCD\x85", false},
           Case{R"(\bkernel\b)", "ékernel", false},
           Case{R"(\bkernel\b)", "é/kernel", true},
           Case{R"(\bé\b)", "a/é/b", true},
           Case{R"(\Bkernel)", "ékernel", true},
           Case{R"(é\b/)", "é/", true},
           Case{R"(\b)", "é", true},
           Case{R"(\b)", "\xE2\x82\xAC", false},
           Case{R"(^\B)", "é", false},
           // The automaton does not read groups of Unicode.
           Case{R"(^\pL\w$)", "éé", true},
           Case{R"(^\pL\W$)", "éé", false},
           Case{R"(^\Q+\E\d$)", "+٣", true},
       }) {
    CHECK_MESSAGE(Found(one.pattern, one.name) == one.found, one.pattern, " ",
                  one.name);
  }
}

TEST_CASE("a name beyond ASCII is matched next to names of ASCII") {
  const std::vector<Pattern> patterns = {
      {R"(^\w+/a$)", {}, '/'}, {R"(\d/a$)", {}, '/'}, {R"(\ba\b)", {}, '/'}};
  Findings findings;
  const auto matcher = Matcher::Compile(patterns, findings);
  REQUIRE(matcher);
  const std::vector<std::string_view> names = {"e/a", "é/a", "٣/a",
                                               "3/a", "-/a", "éa"};
  for (const Engine engine : {Engine::kAutomaton, Engine::kRe2}) {
    const MatchOptions options{.threads = 1, .engine = engine};
    const Matches matches = matcher->Match(names, '/', options);
    const std::vector<std::vector<uint32_t>> wanted = {
        {0, 2}, {0, 2}, {0, 1, 2}, {0, 1, 2}, {2}, {}};
    for (size_t i = 0; i < names.size(); ++i) {
      const auto found = matches.Of(i);
      CHECK(std::vector<uint32_t>(found.begin(), found.end()) == wanted[i]);
    }
  }
}

}  // namespace
}  // namespace shardc
