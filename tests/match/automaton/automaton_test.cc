#include "match/automaton/automaton.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "match/match.h"

namespace shardc {
namespace {

Nfa Built(const std::vector<std::string_view>& texts, char separator = '/') {
  std::vector<NfaPattern> patterns;
  for (std::string_view text : texts) patterns.push_back({text, '/'});
  auto nfa = Nfa::Build(patterns, separator, Prefixes::kShared);
  REQUIRE(nfa);
  return std::move(*nfa);
}

using Rules = std::vector<uint32_t>;

Rules Found(Automaton& automaton, const RuleSets& sets, std::string_view name) {
  const auto number = automaton.Find(name);
  REQUIRE(number);
  const auto rules = sets.Of(*number);
  return {rules.begin(), rules.end()};
}

TEST_CASE("matching continues where a name differs from the last one") {
  const Nfa nfa =
      Built({"attn/kernel$", "layers/1\\d/", "attn", "^model", ".*"});
  RuleSets sets;
  Automaton automaton(nfa, sets);
  CHECK(Found(automaton, sets, "model/layers/10/attn/kernel") ==
        Rules{0, 1, 2, 3, 4});
  CHECK(Found(automaton, sets, "model/layers/10/attn/bias") ==
        Rules{1, 2, 3, 4});
  CHECK(Found(automaton, sets, "model/layers/1") == Rules{3, 4});
  CHECK(Found(automaton, sets, "model/layers/1") == Rules{3, 4});
  CHECK(Found(automaton, sets, "") == Rules{4});
  CHECK(Found(automaton, sets, "model/layers/1/attn/kernel") ==
        Rules{0, 2, 3, 4});
}

TEST_CASE("the separator of the names is read as that of the patterns") {
  const Nfa nfa = Built({"a/b", "a[^/]b", "a[./]b", "\\W"}, '.');
  RuleSets sets;
  Automaton automaton(nfa, sets);
  CHECK(Found(automaton, sets, "a.b") == Rules{0, 2, 3});
  CHECK(Found(automaton, sets, "a/b") == Rules{0, 2, 3});
  CHECK(Found(automaton, sets, "a-b") == Rules{1, 3});
}

TEST_CASE(
    "names that are not UTF-8 are left to RE2 unless the result is known "
    "before") {
  const Nfa all = Built({"^a", "^b"});
  RuleSets sets;
  Automaton automaton(all, sets);
  CHECK(Found(automaton, sets, "a\xFF") == Rules{0});
  CHECK(Found(automaton, sets, "ab\xFF") == Rules{0});
  CHECK_FALSE(automaton.Find("\xFF"));
  const Nfa more = Built({"^a", "b"});
  Automaton another(more, sets);
  CHECK_FALSE(another.Find("a\xFF"));
  CHECK(Found(another, sets, "a\xC3\xA9") == Rules{0});
  // RE2's `\B` also matches between the bytes of a code point. That of the
  // automaton, as Python's, does not.
  const Nfa edges = Built({"\\B"});
  Automaton third(edges, sets);
  CHECK(Found(third, sets, "\xC3\xA9") == Rules{});
  CHECK(Found(third, sets, "\xC3\xA9\xC3\xA9") == Rules{0});
  CHECK(Found(third, sets, "a") == Rules{});
}

TEST_CASE("unsupported patterns are reported, and the others are matched") {
  const Nfa nfa = Built({"\\pL", "a", "(?i)\xC3\xA9", "\\C", "\\Qa\\E",
                         "(a{100}){10}", "((ab){30}){33}", "[a-z]{1000}"});
  std::vector<uint32_t> outside;
  for (uint32_t p = 0; p < nfa.patterns(); ++p) {
    if (!nfa.inside[p]) outside.push_back(p);
  }
  CHECK(outside == Rules{0, 2, 3, 4});
}

TEST_CASE("a scan ends early only if no pattern can begin any more") {
  struct Case {
    std::string_view pattern;
    std::string_view name;
    bool found;
  };
  const Case cases[] = {
      {"a(?:^)*b", "xab", true},  {"a(?:^)?b", "xab", true},
      {"(?:^|x)a", "yxa", true},  {"(?:^|\\Ax)a", "yxa", false},
      {"(?:^a){2}", "aa", false}, {"(?m)^a", "b\na", true},
      {"(?:^)+a", "xa", false},   {"^", "x", true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.pattern);
    const Nfa nfa = Built({c.pattern});
    RuleSets sets;
    Automaton automaton(nfa, sets);
    CHECK(Found(automaton, sets, c.name) == (c.found ? Rules{0} : Rules{}));
  }
}

std::vector<std::string> RandomNames(size_t count, size_t size) {
  std::mt19937 random(7);
  std::vector<std::string> names(count);
  for (std::string& name : names) {
    while (name.size() < size) name += "abc"[random() % 3];
  }
  return names;
}

TEST_CASE(
    "hostile patterns: memory and work are bounded, and the result is RE2's") {
  const std::string_view kManyStates = "(a|b)*a(a|b){18}c";
  const Nfa nfa = Built({kManyStates, "a.{1,300}c.{1,300}b$", "a(.*b.*c.*)+"});
  const std::vector<std::string> names = RandomNames(150, 200);

  AutomatonLimits small;
  small.bytes = 100'000;
  small.work = INT64_MAX / 2;
  RuleSets sets;
  Automaton forgetful(nfa, sets, small);
  size_t most = 0;
  for (size_t i = 0; i < 30; ++i) {
    REQUIRE(forgetful.Find(names[i]));
    most = std::max(most, forgetful.states());
  }
  CHECK_FALSE(forgetful.given_up());
  CHECK(most > 10);
  CHECK(most < 2000);

  AutomatonLimits little;
  little.work = 100'000;
  RuleSets more;
  Automaton bounded(nfa, more, little);
  for (const std::string& name : names) bounded.Find(name);
  CHECK(bounded.given_up());

  Findings findings;
  std::vector<Pattern> patterns = {{kManyStates, {}, '/'},
                                   {"a.{1,300}c.{1,300}b$", {}, '/'}};
  const auto matcher = Matcher::Compile(patterns, findings);
  REQUIRE(matcher);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const Matches own = matcher->Match(views, '/');
  const Matches re2 = matcher->Match(views, '/', {.engine = Engine::kRe2});
  CHECK(own.first == re2.first);
  CHECK(own.set == re2.set);
  CHECK(own.rules == re2.rules);
}

}  // namespace
}  // namespace shardc
