// Compares the filter with RE2, for patterns with gaps such as `a.*b`.
#include "match/re2_finder.h"

#include <doctest/doctest.h>
#include <re2/re2.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "match/automaton/automaton.h"
#include "match/automaton/nfa.h"
#include "match/match.h"
#include "match/pattern_maker.h"

namespace shardc {
namespace {

using Compiled = std::vector<std::shared_ptr<const RE2>>;

Compiled Compile(const std::vector<std::string>& patterns, int64_t bytes) {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(bytes);
  Compiled out;
  for (const std::string& pattern : patterns) {
    auto re = std::make_shared<RE2>(pattern, options);
    if (re->ok()) out.push_back(std::move(re));
  }
  return out;
}

// Compares the filter with RE2, pattern by pattern.
void CheckAll(const Compiled& patterns, const std::vector<std::string>& names) {
  const PatternFilter filter(patterns);
  PatternFilter::Scratch scratch;
  for (const std::string& name : names) {
    std::vector<uint32_t> expected;
    for (uint32_t p = 0; p < patterns.size(); ++p) {
      if (RE2::PartialMatch(name, *patterns[p])) expected.push_back(p);
    }
    std::vector<uint32_t> found;
    filter.Find(name, scratch, found);
    std::sort(found.begin(), found.end());
    CHECK_MESSAGE(found == expected, name);
  }
}

TEST_CASE("random strange patterns: the filter leaves out no match") {
  PatternMaker maker(20250312);
  for (int round = 0; round < 150; ++round) {
    std::vector<std::string> patterns;
    for (uint32_t i = 1 + maker.Below(30); i > 0; --i) {
      patterns.push_back(maker.StrangePattern(3));
    }
    std::vector<std::string> names;
    for (int i = 0; i < 150; ++i) names.push_back(maker.StrangeName());
    CheckAll(Compile(patterns, 8 << 20), names);
  }
}

TEST_CASE(
    "random patterns of models with gaps: the filter leaves out no match") {
  PatternMaker maker(20250313);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> patterns;
    for (uint32_t i = 1 + maker.Below(200); i > 0; --i) {
      std::string pattern = maker.ModelPattern('/');
      const std::string end = maker.ModelName('/');
      pattern += ".*" + end.substr(end.size() - 1 - maker.Below(5));
      patterns.push_back("(model|" + pattern + ").*" + pattern);
    }
    std::vector<std::string> names;
    for (int i = 0; i < 200; ++i) names.push_back(maker.ModelName('/'));
    CheckAll(Compile(patterns, 8 << 20), names);
  }
}

TEST_CASE("names and patterns beyond ASCII are matched as by RE2") {
  const std::vector<std::string> patterns = {"(?i)kern",
                                             "(?i)\xE2\x84\xAA"
                                             "ern",
                                             "\xC3\x89t",
                                             "(?i)\xC3\x89t",
                                             "(?i)ma\xC5\xBFs",
                                             "KERN",
                                             "kern"};
  CheckAll(Compile(patterns, 8 << 20), {"kern", "KERN",
                                        "\xE2\x84\xAA"
                                        "ern",
                                        "\xC3\x89t", "\xC3\xA9t", "mass",
                                        "ma\xC5\xBFs", "MASS", "\xFFkern", ""});
}

TEST_CASE("a pattern too large for its share of the memory is still matched") {
  std::vector<std::string> patterns(3000, "a.*b");
  patterns[7] = "[a-z]{900}[0-9]{900}x|kern.*el";
  const Compiled compiled = Compile(patterns, 8 << 20);
  REQUIRE(compiled.size() == patterns.size());
  CheckAll(compiled, {"kern/el", "ab", std::string(901, 'q')});
}

TEST_CASE("a list that the automaton gives up has RE2's result") {
  // After `block` every pattern waits for a number of its own, so that nearly
  // every byte of a name leads to a new state of 500 nodes.
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) {
    const std::string number = std::to_string(i * 7919 % 100'003);
    texts.push_back("(block|blick_" + number + ").*" + number + ".*weight$");
  }
  texts.push_back("\xC3\xA9.*weight");
  std::vector<std::string> lines;
  for (int i = 0; i < 1500; ++i) {
    lines.push_back("block_" + std::to_string(i * 104'729 % 100'003) + "/" +
                    std::to_string(i % 500 * 7919 % 100'003) + "/weight");
    if (i % 100 == 0) lines.push_back("\xC3\xA9" + lines.back());
    if (i % 200 == 0) lines.push_back("\xFF" + lines.back());
  }
  std::vector<Pattern> patterns;
  std::vector<NfaPattern> nfa_patterns;
  for (const std::string& text : texts) {
    patterns.push_back({text, {}, '/'});
    nfa_patterns.push_back({text, '/'});
  }
  const std::vector<std::string_view> names(lines.begin(), lines.end());
  Findings findings;
  const auto matcher = Matcher::Compile(patterns, findings);
  REQUIRE(matcher);

  const auto nfa = Nfa::Build(nfa_patterns, '/', Prefixes::kShared);
  REQUIRE(nfa);
  RuleSets sets;
  Automaton automaton(*nfa, sets);
  for (const std::string_view name : names) automaton.Find(name);
  REQUIRE(automaton.given_up());

  const Matches matches = matcher->Match(names, '/');
  for (size_t i = 0; i < names.size(); i += 7) {
    std::vector<uint32_t> expected;
    for (uint32_t p = 0; p < patterns.size(); ++p) {
      if (matcher->Find(p, names[i], '/')) expected.push_back(p);
    }
    const auto found = matches.Of(i);
    CHECK(std::vector<uint32_t>(found.begin(), found.end()) == expected);
  }
}

}  // namespace
}  // namespace shardc
