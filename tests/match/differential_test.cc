// Compares the automaton with RE2: random rule sets, and all small patterns on
// all short texts. SHARDC_MATCH_PAIRS sets the number of pairs of names and
// rules, and SHARDC_MATCH_SEED selects others:
//
//   SHARDC_MATCH_PAIRS=1000000000 build/tests/match_test -tc='*random*'
#include "match/differential.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "match/pattern_maker.h"

namespace shardc {
namespace {

int64_t Setting(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

void Check(const MatchCase& one, bool one_by_one, Compared& total) {
  const Compared compared = CompareMatching(one, one_by_one);
  CHECK_MESSAGE(compared.difference.empty(), compared.difference);
  total.pairs += compared.pairs;
  total.by_automaton += compared.by_automaton;
}

TEST_CASE("random rule sets of models: the automaton is RE2") {
  PatternMaker maker(
      static_cast<uint32_t>(Setting("SHARDC_MATCH_SEED", 20240611)));
  const int64_t wanted = Setting("SHARDC_MATCH_PAIRS", 10'000'000) / 2;
  Compared total;
  for (int round = 0; total.pairs < wanted; ++round) {
    MatchCase one;
    one.name_separator = round % 3 == 0 ? '.' : '/';
    one.pattern_separator = round % 5 == 0 ? '.' : '/';
    const uint32_t rules = 1 + maker.Below(round % 7 == 0 ? 200 : 30);
    for (uint32_t i = 0; i < rules; ++i) {
      one.patterns.push_back(maker.ModelPattern(one.pattern_separator));
    }
    for (int i = 0; i < 3000; ++i) {
      one.names.push_back(maker.ModelName(one.name_separator));
    }
    if (round % 2 == 0) std::sort(one.names.begin(), one.names.end());
    Check(one, round % 20 == 0, total);
  }
  CHECK(2 * total.by_automaton > total.pairs);
}

TEST_CASE("random strange patterns and names: the automaton is RE2") {
  PatternMaker maker(
      static_cast<uint32_t>(Setting("SHARDC_MATCH_SEED", 20240612)));
  const int64_t wanted = Setting("SHARDC_MATCH_PAIRS", 10'000'000) / 2;
  Compared total;
  for (int round = 0; total.pairs < wanted; ++round) {
    MatchCase one;
    one.name_separator = "/.\0"[maker.Below(3)];
    one.pattern_separator = "/.\0"[maker.Below(3)];
    const uint32_t rules = 1 + maker.Below(25);
    for (uint32_t i = 0; i < rules; ++i) {
      one.patterns.push_back(maker.StrangePattern(3));
    }
    for (int i = 0; i < 1500; ++i) {
      one.names.push_back(maker.StrangeName());
      // After every fourth name, add a prefix of it, which may end inside a
      // code point.
      if (i % 4 != 0) continue;
      const std::string& last = one.names.back();
      const auto size = static_cast<uint32_t>(last.size());
      one.names.push_back(last.substr(0, maker.Below(size + 1)));
    }
    if (round % 2 == 0) std::sort(one.names.begin(), one.names.end());
    Check(one, round % 10 == 0, total);
  }
  CHECK(2 * total.by_automaton > total.pairs);
}

// Returns all texts of `letters` with at most `longest` letters.
std::vector<std::string> AllTexts(const std::vector<std::string>& letters,
                                  size_t longest) {
  std::vector<std::string> out = {""};
  for (size_t begin = 0, size = 0; size < longest; ++size) {
    const size_t end = out.size();
    for (; begin < end; ++begin) {
      for (const std::string& letter : letters) {
        out.push_back(out[begin] + letter);
      }
    }
  }
  return out;
}

// Returns all patterns of at most `size` of the `atoms`, with `|` between atoms
// and repetitions of the last one.
std::vector<std::string> AllPatterns(const std::vector<std::string>& atoms,
                                     int size) {
  std::vector<std::string> grown = {""};
  std::vector<std::string> out = grown;
  for (int i = 0; i < size; ++i) {
    std::vector<std::string> next;
    for (const std::string& left : grown) {
      for (const std::string& atom : atoms) {
        next.push_back(left + atom);
        if (!left.empty()) next.push_back(left + "|" + atom);
      }
      if (left.empty()) continue;
      for (const char* repeat : {"*", "+", "?", "{2}", "{0,2}"}) {
        next.push_back("(?:" + left + ")" + repeat);
      }
    }
    out.insert(out.end(), next.begin(), next.end());
    grown = std::move(next);
  }
  return out;
}

TEST_CASE("all small patterns on all short texts: the automaton is RE2") {
  struct Alphabet {
    std::vector<std::string> atoms;
    int size;
    std::vector<std::string> letters;
    size_t longest;
  };
  const std::vector<Alphabet> alphabets = {
      {{"a", "b", ".", "^", "$"}, 3, {"a", "b"}, 6},
      {{"a", "\\b", "\\B", "/"}, 3, {"a", "/"}, 6},
      {{"(?m:^)", "(?m:$)", "a", "\\n"}, 3, {"a", "\n"}, 6},
      {{"(?i:k)", "[^a]", "\\W"}, 3, {"k", "K", "\xE2\x84\xAA"}, 4},
  };
  Compared total;
  for (const Alphabet& alphabet : alphabets) {
    const auto patterns = AllPatterns(alphabet.atoms, alphabet.size);
    MatchCase one;
    one.names = AllTexts(alphabet.letters, alphabet.longest);
    for (size_t at = 0; at < patterns.size(); at += 40) {
      const size_t end = std::min(patterns.size(), at + 40);
      one.patterns.assign(patterns.begin() + static_cast<std::ptrdiff_t>(at),
                          patterns.begin() + static_cast<std::ptrdiff_t>(end));
      Check(one, false, total);
    }
  }
  CHECK(2 * total.by_automaton > total.pairs);
}

}  // namespace
}  // namespace shardc
