#include "match/match.h"

#include <doctest/doctest.h>
#include <re2/re2.h>

#include <random>

namespace shardc {
namespace {

std::vector<Pattern> Patterns(const std::vector<std::string>& texts,
                              char separator = '/') {
  std::vector<Pattern> out;
  for (const std::string& text : texts) out.push_back({text, {}, separator});
  return out;
}

Matcher Compiled(const std::vector<Pattern>& patterns) {
  Findings findings;
  auto matcher = Matcher::Compile(patterns, findings);
  REQUIRE(matcher.has_value());
  return std::move(*matcher);
}

TEST_CASE("the first matching rule wins, and all matching rules are returned") {
  const std::vector<std::string> texts = {"attn/kernel$", "layers/\\d+/", ".*"};
  const Matcher matcher = Compiled(Patterns(texts));
  const std::vector<std::string_view> names = {
      "model/layers/0/attn/kernel", "model/layers/11/mlp/kernel", "norm/scale"};
  const Matches matches = matcher.Match(names, '/');
  CHECK(matches.first == std::vector<int32_t>{0, 1, 2});
  CHECK(std::vector<uint32_t>(matches.Of(0).begin(), matches.Of(0).end()) ==
        std::vector<uint32_t>{0, 1, 2});
  CHECK(std::vector<uint32_t>(matches.Of(1).begin(), matches.Of(1).end()) ==
        std::vector<uint32_t>{1, 2});
}

TEST_CASE("a name without a rule is not an error") {
  const std::vector<std::string> texts = {"^bias$"};
  const Matcher matcher = Compiled(Patterns(texts));
  const std::vector<std::string_view> names = {"kernel", "bias"};
  CHECK(matcher.Match(names, '/').first ==
        std::vector<int32_t>{Matches::kNone, 0});
}

TEST_CASE(
    "names are converted to the separator that a pattern is written with") {
  std::vector<Pattern> patterns = {{"mlp/up", {}, '/'}, {"mlp\\.up", {}, '.'}};
  const Matcher matcher = Compiled(patterns);
  const std::vector<std::string_view> dotted = {"layers.0.mlp.up"};
  const Matches matches = matcher.Match(dotted, '.');
  CHECK(matches.first[0] == 0);
  CHECK(matches.Of(0).size() == 2);
  // A name with neither separator is matched unchanged.
  const std::vector<std::string_view> plain = {"mlp.up"};
  CHECK(matcher.Match(plain, 0).first[0] == 1);
}

TEST_CASE("a rewrite gives a name in the name's own separator") {
  std::vector<Pattern> patterns = {{"(.*)/weight_scale$", {}, '/'},
                                   {"(.*)\\.weight_scale$", {}, '.'}};
  const Matcher matcher = Compiled(patterns);
  CHECK(matcher.Rewrite(0, "a.b.weight_scale", '.', "\\1/weight") ==
        "a.b.weight");
  CHECK(matcher.Rewrite(1, "a.b.weight_scale", '.', "\\1.weight") ==
        "a.b.weight");
  CHECK_FALSE(matcher.Rewrite(1, "a.b.weight_scale", '.', "\\2").has_value());
  CHECK(matcher.Find(1, "a.b.weight_scale", '.') ==
        std::pair<size_t, size_t>{0, 16});
}

TEST_CASE("a rewrite takes groups by digit, and other escapes literally") {
  const Matcher matcher =
      Compiled({{"(a+)(b)?(c)(d)(e)(f)(g)(h)(i)", {}, '/'}, {"x", {}, '/'}});
  const auto rewritten = [&](std::string_view text, size_t rule = 0,
                             std::string_view name = "z/aacdefghi/q") {
    return matcher.Rewrite(rule, name, '/', text).value_or("none");
  };
  // Group 0 is what the pattern matches, not the name.
  CHECK(rewritten("\\0") == "aacdefghi");
  CHECK(rewritten("<\\0\\0>") == "<aacdefghiaacdefghi>");
  CHECK(rewritten("\\1/\\3") == "aa/c");
  CHECK(rewritten("\\9") == "i");
  CHECK(rewritten("\\10") == "aa0");
  // A group that is not part of the match is empty.
  CHECK(rewritten("[\\2]") == "[]");
  CHECK(rewritten("\\\\") == "\\");
  CHECK(rewritten("\\.w") == ".w");
  CHECK(rewritten("w\\") == "w\\");
  CHECK(rewritten("") == "");
  CHECK(rewritten("\\0", 1, "x") == "x");
  CHECK(rewritten("\\1", 1, "x") == "none");
  CHECK(rewritten("w", 1, "y") == "none");
  // Separators in the rewrite are replaced by that of the name.
  CHECK(matcher.Rewrite(0, "z.aacdefghi", '.', "\\1/w.x") == "aa.w.x");
  // Separators in the groups are those of the name, whose parts may contain the
  // other one.
  const Matcher parts = Compiled({{"(.*)\\.scale$", {}, '.'}});
  CHECK(parts.Rewrite(0, "h.0/up/scale", '/', "\\1.w") == "h.0/up/w");
}

TEST_CASE(
    "features that RE2 lacks are explained with a rewrite and a position") {
  struct Case {
    std::string pattern;
    std::string_view code;
    std::string_view reason;
    std::string_view help;
  };
  const std::vector<Case> cases = {
      {"a(?=b)", "regex-syntax", "look-ahead", "`a/b`"},
      {"layers(?!/0)", "regex-syntax", "negative look-ahead", "above"},
      {"(?<=a)b", "regex-syntax", "look-behind", "`a/b`"},
      {"(?<!a)b", "regex-syntax", "negative look-behind", "above"},
      {"(a)\\1", "regex-syntax", "back-references", "alternatives"},
      {"(?P<x>a)(?P=x)", "regex-syntax", "back-references", "alternatives"},
      {"(?>a+)b", "regex-syntax", "atomic", "(?:"},
      {"a\\Z", "regex-syntax", "invalid escape", "\\z"},
      {"(?#c)a", "regex-syntax", "comments", "YAML"},
      {"(?P<n>a)(?#c)", "regex-syntax", "comments", "YAML"},
      {"(?P<n>a)(?(n)b|c)", "regex-syntax", "conditional", "alternatives"},
      {"(?P<n>a)(?P<b c>d)", "regex-syntax", "name is not usable at position 9",
       "letters"},
      {"(?P<n>a)(?x)", "regex-syntax", "operator: (?x at position 9", ""},
      {"\\(?=[(?=](?#c)", "regex-syntax", "comments", "YAML"},
      {"*a", "regex-syntax", "no argument", "`.*a`"},
      {"a|+b", "regex-syntax", "no argument", "escape"},
      {"a/**/b", "regex-syntax", "bad repetition", "`a/.*/b`"},
      {"a)", "regex-syntax", "unexpected )", "escape"},
      {"(a", "regex-syntax", "missing )", "escape"},
      {"[a", "regex-syntax", "missing ]", "escape"},
      {"a{1001}", "regex-syntax", "repetition", "1000"},
      {"a{2,1}", "regex-syntax", "repetition", "`{1,2}`"},
      {"\\pL{1000}", "regex-limit", "too large", "fewer"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.pattern);
    Findings findings;
    const auto matcher = Matcher::Compile(Patterns({c.pattern}), findings);
    CHECK_FALSE(matcher.has_value());
    REQUIRE(findings.all().size() == 1);
    const Finding& finding = findings.all()[0];
    CHECK(finding.code->name == c.code);
    CHECK(finding.message.find(c.reason) != std::string::npos);
    CHECK(finding.help.find(c.help) != std::string::npos);
  }
}

TEST_CASE("an error points into the pattern's text") {
  const SourceRef source = MakeSource("r.yaml", "match: 'ab(?=c)'\n");
  const Place place{source, 7, 16};
  Findings findings;
  const std::vector<Pattern> patterns = {{"ab(?=c)", place, '/'}};
  CHECK_FALSE(Matcher::Compile(patterns, findings).has_value());
  CHECK(findings.all()[0].place.begin == 10);
  CHECK(findings.all()[0].place.end == 13);
}

TEST_CASE("all bad patterns are reported at once") {
  Findings findings;
  CHECK_FALSE(Matcher::Compile(Patterns({"(", "ok", "[", "a**"}), findings)
                  .has_value());
  CHECK(findings.errors() == 3);
}

TEST_CASE("too many large patterns are refused in bounded time") {
  const std::vector<std::string> texts(500, "\\pL{100}");
  Findings findings;
  CHECK_FALSE(Matcher::Compile(Patterns(texts), findings).has_value());
  CHECK(findings.all()[0].code->name == "regex-limit");
}

TEST_CASE("a long pattern of optional parts is refused before it is compiled") {
  std::string text;
  while (text.size() < 32'768) text += "a?";
  Findings findings;
  const std::vector<Pattern> longest = {{text, {}, '/'}};
  CHECK(Matcher::Compile(longest, findings));
  text += "a";
  const std::vector<Pattern> longer = {{text, {}, '/'}};
  CHECK_FALSE(Matcher::Compile(longer, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].code->name == code::kRegexLimit.name);
  CHECK(findings.all()[0].message.size() < 200);
}

TEST_CASE("the automaton agrees with trying the patterns one by one") {
  std::mt19937 random(20240611);
  const std::vector<std::string> pieces = {"a",  "b",     "/",    "\\d+",  ".",
                                           ".*", "(a|b)", "[ab]", "0",     "^",
                                           "$",  "a?",    "b+",   "(?:/a)"};
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> texts;
    while (texts.size() < 12) {
      std::string text;
      for (size_t k = 0; k < 1 + random() % 5; ++k) {
        text += pieces[random() % pieces.size()];
      }
      Findings findings;
      const std::vector<std::string> one = {text};
      if (Matcher::Compile(Patterns(one), findings)) texts.push_back(text);
    }
    std::vector<std::string> stored;
    for (int i = 0; i < 9000; ++i) {
      std::string name;
      for (size_t k = 0; k < random() % 8; ++k) name += "ab/01"[random() % 5];
      stored.push_back(name);
    }
    const std::vector<std::string_view> names(stored.begin(), stored.end());
    const Matcher matcher = Compiled(Patterns(texts));
    const Matches matches = matcher.Match(names, '/');
    const Matches threaded = matcher.Match(names, '/', {.threads = 8});
    CHECK(matches.first == threaded.first);
    CHECK(matches.rules == threaded.rules);
    CHECK(matches.begin == threaded.begin);
    CHECK(matches.set == threaded.set);
    for (size_t i = 0; i < names.size(); i += 17) {
      std::vector<uint32_t> expected;
      for (size_t p = 0; p < texts.size(); ++p) {
        if (matcher.Find(p, names[i], '/')) {
          expected.push_back(static_cast<uint32_t>(p));
        }
      }
      REQUIRE(std::vector<uint32_t>(matches.Of(i).begin(),
                                    matches.Of(i).end()) == expected);
    }
  }
}

TEST_CASE("a single pattern returns its first group") {
  Findings findings;
  const auto regex = Regex::Compile({"experts/(\\d+)/", {}, '/'}, findings);
  REQUIRE(regex.has_value());
  CHECK(regex->groups() == 1);
  CHECK(regex->Group1("a/experts/17/w1") == "17");
  CHECK_FALSE(regex->Group1("a/expert/17/w1").has_value());
  CHECK(regex->Found("experts/0/"));
}

// Without a known literal prefix RE2 searches for the beginning of the match.
TEST_CASE("the first group is that of the leftmost match") {
  const std::string patterns[] = {
      R"(experts\.(\d+)\.)",
      R"(a(\d))",
      R"(aa(\d))",
      R"(ab?(c))",
      R"(ab*(a|b))",
      R"(a{2}(\d))",
      R"(x|a(\d))",
      R"((x|a)b)",
      R"(a\|(b))",
      R"(a[|(](b|c))",
      R"(a[)]|x(b))",
      R"(^a(b))",
      R"(a(b)$)",
      R"(\ba(\w))",
      R"(a(?i)B(c))",
      R"((?i)Ab(c))",
      R"(\Qa|\E(b))",
      R"(a.b\.(\w)|c)",
      R"(a-b/(\d*))",
      R"((a)(b))",
      R"(a+?(b))",
      R"(a\d(b)?)",
      R"(abc)",
      R"(a\.?(b))",
  };
  std::mt19937_64 random(3);
  constexpr std::string_view kBytes = "aaabbbcx01.|/-)AB";
  int found = 0;
  for (const std::string& text : patterns) {
    CAPTURE(text);
    Findings findings;
    const auto regex = Regex::Compile({text, {}, '/'}, findings);
    REQUIRE(regex.has_value());
    const RE2 judge(text);
    for (int i = 0; i < 5000; ++i) {
      std::string name = random() % 8 == 0 ? "experts.17.w" : "";
      for (uint64_t n = random() % 12; n > 0; --n) {
        name += kBytes[random() % kBytes.size()];
      }
      CAPTURE(name);
      re2::StringPiece groups[2];
      const bool any =
          judge.NumberOfCapturingGroups() > 0 &&
          judge.Match(name, 0, name.size(), RE2::UNANCHORED, groups, 2);
      const auto got = regex->Group1(name);
      REQUIRE(got.has_value() == any);
      if (any)
        REQUIRE(*got == std::string_view(groups[1].data(), groups[1].size()));
      found += any ? 1 : 0;
    }
  }
  CHECK(found > 10000);
}

// A rules file cannot contain a NUL byte, but a caller of the library can pass
// one.
TEST_CASE("a pattern with a NUL byte is refused") {
  Findings findings;
  const std::string text("a\0b", 3);
  CHECK_FALSE(Regex::Compile({text, {}, '/'}, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message ==
        "the pattern holds a NUL byte, which no name has");
}

}  // namespace
}  // namespace shardc
