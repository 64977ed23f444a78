#include "match/differential.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "match/automaton/automaton.h"
#include "match/automaton/nfa.h"
#include "match/match.h"
#include "source/json_writer.h"

namespace shardc {
namespace {

std::string ListText(std::span<const uint32_t> numbers) {
  std::string out = "{";
  for (uint32_t number : numbers) out += " " + std::to_string(number);
  return out + " }";
}

class Comparison {
 public:
  explicit Comparison(const MatchCase& one) : case_(one) {
    for (const std::string& text : one.patterns) {
      Findings ignored;
      const Pattern pattern{text, {}, one.pattern_separator};
      if (Matcher::Compile({&pattern, 1}, ignored)) {
        patterns_.push_back(pattern);
      }
    }
    names_.assign(one.names.begin(), one.names.end());
  }

  Compared Run(bool one_by_one);

 private:
  void Expect(std::string_view how, size_t name,
              std::span<const uint32_t> found);
  void CompareAutomaton(const Nfa& nfa, const AutomatonLimits& limits);
  std::span<const uint32_t> Inside(size_t name, const Nfa& nfa);

  const MatchCase& case_;
  std::vector<Pattern> patterns_;
  std::vector<std::string_view> names_;
  Matches expected_;
  std::vector<uint32_t> scratch_;
  Compared out_;
};

void Comparison::Expect(std::string_view how, size_t name,
                        std::span<const uint32_t> found) {
  const auto expected = expected_.Of(name);
  if (!out_.difference.empty() ||
      std::equal(found.begin(), found.end(), expected.begin(),
                 expected.end())) {
    return;
  }
  out_.difference = std::string(how) + ": name " + JsonString(names_[name]) +
                    " gives " + ListText(found) + ", RE2's set " +
                    ListText(expected) + " of";
  for (const Pattern& pattern : patterns_) {
    out_.difference += " " + JsonString(pattern.text);
  }
}

// Returns the patterns that RE2 finds in the name, without those that the
// automaton does not support.
std::span<const uint32_t> Comparison::Inside(size_t name, const Nfa& nfa) {
  scratch_.clear();
  for (uint32_t rule : expected_.Of(name)) {
    if (nfa.inside[rule]) scratch_.push_back(rule);
  }
  return scratch_;
}

void Comparison::CompareAutomaton(const Nfa& nfa,
                                  const AutomatonLimits& limits) {
  RuleSets sets;
  Automaton automaton(nfa, sets, limits);
  const auto inside = static_cast<int64_t>(
      std::count(nfa.inside.begin(), nfa.inside.end(), true));
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto number = automaton.Find(names_[i]);
    if (!number) continue;
    out_.by_automaton += inside;
    const auto expected = Inside(i, nfa);
    const auto found = sets.Of(*number);
    if (std::equal(found.begin(), found.end(), expected.begin(),
                   expected.end())) {
      continue;
    }
    Expect("few states", i, found);
    if (!out_.difference.empty()) return;
  }
}

Compared Comparison::Run(bool one_by_one) {
  Findings findings;
  const auto matcher = Matcher::Compile(patterns_, findings);
  if (!matcher) return out_;
  const char separator = case_.name_separator;
  expected_ = matcher->Match(names_, separator, {.engine = Engine::kRe2});
  out_.pairs = static_cast<int64_t>(patterns_.size() * names_.size());
  const Matches matches =
      matcher->Match(names_, separator, {.engine = Engine::kAutomaton});
  for (size_t i = 0; i < names_.size(); ++i) {
    Expect("automaton", i, matches.Of(i));
    const int32_t first = matches.Of(i).empty()
                              ? Matches::kNone
                              : static_cast<int32_t>(matches.Of(i).front());
    if (matches.first[i] != first) out_.difference += "wrong first";
    if (!one_by_one) continue;
    std::vector<uint32_t> found;
    for (uint32_t p = 0; p < patterns_.size(); ++p) {
      if (matcher->Find(p, names_[i], separator)) found.push_back(p);
    }
    Expect("one by one", i, found);
  }
  std::vector<NfaPattern> texts;
  for (const Pattern& pattern : patterns_) {
    texts.push_back({pattern.text, pattern.separator});
  }
  const auto nfa = Nfa::Build(texts, separator, Prefixes::kOwn);
  if (nfa) CompareAutomaton(*nfa, {.bytes = 2000});
  return out_;
}

}  // namespace

Compared CompareMatching(const MatchCase& one, bool one_by_one) {
  return Comparison(one).Run(one_by_one);
}

}  // namespace shardc
