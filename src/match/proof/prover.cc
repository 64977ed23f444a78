// Proves for which names a rule is the first match of a list (the rule "wins"
// these names). A rule never wins if earlier rules together match every name
// that the rule matches. These earlier rules are collected one by one. A search
// finds a name that the rule matches and that no collected rule matches. If an
// earlier rule wins this name, the earlier rule is collected:
//
//   [0] q_proj  [1] k_proj  [2] .*  [3] (q|k)_proj/kernel
//   proof for rule 3:
//   avoiding none     q_proj/kernel   is won by 0
//   avoiding 0        k_proj/kernel   is won by 1
//   avoiding 0, 1     no name: 0 and 1 cover the rule
//
// For a rule that wins a name, one or two small searches are usually enough.
// For a rule that never wins, the collected rules are a cover: together they
// match every name of the rule. Finally, rules that other rules of the cover
// make redundant are removed. For each remaining rule, a search finds an
// example name that no other remaining rule matches.
#include "match/proof/prover.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "match/automaton/automaton.h"
#include "match/automaton/pattern_tree.h"

namespace shardc {
namespace {

// Finds pairs of rules that may match a common name. Most rules end with
// literal characters and `$`. Two such rules can match the same name only if
// the end of one rule is a suffix of the end of the other:
//
//   q_proj\.weight$   proj\.weight$     may match a common name
//   q_proj\.weight$   k_proj\.weight$   match no common name
//
// The ends are stored reversed and sorted, so that all ends with a common
// suffix follow one another.

struct LiteralEnds {
  std::u32string begin;  // The text with which every matching name begins.
  // Every matching name ends with this text, which is stored reversed.
  std::u32string end;
};

// A list to which rules are added one by one. Before a rule is added, Count()
// and List() find the earlier rules that may match the same name as this rule.
class EarlierRules {
 public:
  // Returns the number of earlier rules that may match the same name as `rule`.
  // Compares only the texts LiteralEnds::end.
  int64_t Count(const LiteralEnds& rule) const;
  // Returns the indices of the rules that Count() counts, in ascending order.
  // Leaves out a rule if LiteralEnds::begin shows that no name matches both
  // rules.
  std::vector<uint32_t> List(const LiteralEnds& rule) const;
  void Add(LiteralEnds rule);

 private:
  template <typename Visit>
  void ForEachEnd(std::u32string_view end, const Visit& visit) const;

  // The beginning (LiteralEnds::begin) of each rule, indexed by rule.
  std::vector<std::u32string> begins_;
  std::map<std::u32string, std::vector<uint32_t>, std::less<>> by_end_;
};

using Parts = std::span<const PatternTree>;

bool Asserts(const PatternTree& part, Assertion assertion) {
  return part.kind == TreeKind::kAssertion && part.assertion == assertion;
}

template <typename At>
std::u32string PointsFrom(At at, At last, bool either_separator) {
  std::u32string out;
  for (; at != last && at->kind == TreeKind::kPoint; ++at) {
    if (either_separator && (at->point == '/' || at->point == '.')) break;
    out += static_cast<char32_t>(at->point);
  }
  return out;
}

// Returns the literal ends of a pattern. `begin` is empty unless the pattern
// begins with `^`, and `end` is empty unless the pattern ends with `$`. Both
// are empty if the automata do not support the pattern. With
// `either_separator`, a name may have `.` where the pattern has `/`, or the
// reverse. Therefore `begin` stops before the first `/` or `.`, and `end` has
// only the text after the last one.
LiteralEnds LiteralEndsOf(std::string_view pattern, bool either_separator) {
  const auto tree = ReadPatternTree(pattern);
  if (!tree || tree->kind != TreeKind::kSequence || tree->parts.empty()) {
    return {};
  }
  const Parts parts = tree->parts;
  LiteralEnds out;
  if (Asserts(parts.front(), kTextBegin)) {
    out.begin = PointsFrom(parts.begin() + 1, parts.end(), either_separator);
  }
  if (Asserts(parts.back(), kTextEnd)) {
    out.end = PointsFrom(parts.rbegin() + 1, parts.rend(), either_separator);
  }
  return out;
}

// Calls `visit` with the rules of each stored end that is a suffix of `end` or
// has `end` as a suffix. All ends are stored reversed, so the code compares
// prefixes.
template <typename Visit>
void EarlierRules::ForEachEnd(std::u32string_view end,
                              const Visit& visit) const {
  for (size_t length = 0; length < end.size(); ++length) {
    const auto shorter = by_end_.find(end.substr(0, length));
    if (shorter != by_end_.end()) visit(shorter->second);
  }
  for (auto longer = by_end_.lower_bound(end);
       longer != by_end_.end() && longer->first.starts_with(end); ++longer) {
    visit(longer->second);
  }
}

int64_t EarlierRules::Count(const LiteralEnds& rule) const {
  size_t count = 0;
  ForEachEnd(rule.end, [&](const auto& rules) { count += rules.size(); });
  return static_cast<int64_t>(count);
}

std::vector<uint32_t> EarlierRules::List(const LiteralEnds& rule) const {
  std::vector<uint32_t> out;
  ForEachEnd(rule.end, [&](const auto& rules) {
    for (const uint32_t other : rules) {
      const std::u32string& begin = begins_[other];
      if (begin.starts_with(rule.begin) || rule.begin.starts_with(begin)) {
        out.push_back(other);
      }
    }
  });
  std::sort(out.begin(), out.end());
  return out;
}

void EarlierRules::Add(LiteralEnds rule) {
  by_end_[std::move(rule.end)].push_back(static_cast<uint32_t>(begins_.size()));
  begins_.push_back(std::move(rule.begin));
}

// The largest number of rules of a cover (earlier rules that together match all
// names of a rule). A longer list would not help a reader.
constexpr size_t kMostCovers = 100;

}  // namespace

Prover::Prover(const Matcher& matcher, const ProofLimits& limits)
    : matcher_(matcher), limits_(limits) {}

// Returns the separators that names may have: those of the patterns, or 0 if no
// pattern has a separator.
std::vector<char> Prover::SeparatorsOf(std::span<const uint32_t> all,
                                       std::span<const uint32_t> none) const {
  std::vector<char> out;
  const auto add = [&](uint32_t rule) {
    const char own = matcher_.separator(rule);
    if (own != 0 && std::find(out.begin(), out.end(), own) == out.end()) {
      out.push_back(own);
    }
  };
  std::for_each(all.begin(), all.end(), add);
  std::for_each(none.begin(), none.end(), add);
  if (out.empty()) out.push_back(0);
  return out;
}

// Returns whether RE2 confirms that all patterns of `all` and no pattern of
// `none` match the name that was found.
bool Prover::Holds(const NameAnswer& found, std::span<const uint32_t> all,
                   std::span<const uint32_t> none) const {
  const auto has = [&](uint32_t rule) {
    return matcher_.Find(rule, found.name, found.separator).has_value();
  };
  return std::all_of(all.begin(), all.end(), has) &&
         std::none_of(none.begin(), none.end(), has);
}

NameAnswer Prover::FindName(std::span<const uint32_t> all,
                            std::span<const uint32_t> none) {
  const auto texts = [&](std::span<const uint32_t> rules) {
    std::vector<NfaPattern> out;
    for (uint32_t rule : rules) {
      out.push_back({matcher_.text(rule), matcher_.separator(rule)});
    }
    return out;
  };
  NameAnswer out{Answer::kNo, "", 0};
  for (char separator : SeparatorsOf(all, none)) {
    const int64_t given = std::min(limits_.work_per_question, limits_.work);
    int64_t work = given;
    NameAnswer one = SearchName(texts(all), texts(none), separator, work);
    limits_.work -= given - work;
    if (one.answer == Answer::kYes && !Holds(one, all, none)) one = {};
    const bool shorter =
        one.answer == Answer::kYes &&
        (out.answer != Answer::kYes || one.name.size() < out.name.size());
    const bool doubt =
        one.answer == Answer::kNotProven && out.answer == Answer::kNo;
    if (shorter || doubt) out = std::move(one);
  }
  return out;
}

// Removes, in order, rules that other rules of the cover make redundant. (A
// cover is a set of earlier rules that together match all names of `rule`.) For
// each remaining rule of the cover, searches for a name that `rule` matches and
// that no other remaining rule matches.
void Prover::Minimise(uint32_t rule, std::vector<Cover>& covers) {
  std::sort(covers.begin(), covers.end(),
            [](const Cover& a, const Cover& b) { return a.rule < b.rule; });
  for (size_t i = 0; i < covers.size();) {
    std::vector<uint32_t> others;
    for (const Cover& cover : covers) {
      if (cover.rule != covers[i].rule) others.push_back(cover.rule);
    }
    NameAnswer alone = FindName({&rule, 1}, others);
    if (alone.answer == Answer::kNo) {
      covers.erase(covers.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (alone.answer == Answer::kYes) covers[i].name = std::move(alone.name);
    ++i;
  }
}

// Returns the first rule before `rule` that matches the name, or nullopt if no
// rule does.
std::optional<uint32_t> Prover::WinnerBefore(uint32_t rule,
                                             const NameAnswer& name) const {
  for (uint32_t r = 0; r < rule; ++r) {
    if (matcher_.Find(r, name.name, name.separator)) return r;
  }
  return std::nullopt;
}

RuleProof Prover::ProveRule(uint32_t rule) {
  RuleProof proof;
  std::vector<uint32_t> taken;
  while (taken.size() <= kMostCovers) {
    NameAnswer name = FindName({&rule, 1}, taken);
    if (name.answer == Answer::kNotProven) return proof;
    if (name.answer == Answer::kNo) {
      proof.kind = taken.empty() ? RuleProof::Kind::kMatchesNothing
                                 : RuleProof::Kind::kNeverWins;
      Minimise(rule, proof.covers);
      return proof;
    }
    const auto winner = WinnerBefore(rule, name);
    if (!winner) {
      return {RuleProof::Kind::kWins, std::move(name.name), {}};
    }
    taken.push_back(*winner);
    proof.covers.push_back({*winner, std::move(name.name)});
  }
  return {};
}

std::vector<RuleProof> Prover::ProveRules() {
  const auto size = static_cast<uint32_t>(matcher_.size());
  std::vector<NameAnswer> names;
  for (uint32_t rule = 0; rule < size; ++rule) {
    names.push_back(FindName({&rule, 1}, {}));
  }
  std::vector<bool> wins(size);
  for (const char separator : {'\0', '/', '.'}) {
    std::vector<uint32_t> rules;
    std::vector<std::string_view> texts;
    for (uint32_t rule = 0; rule < size; ++rule) {
      const NameAnswer& name = names[rule];
      if (name.answer != Answer::kYes || name.separator != separator) continue;
      rules.push_back(rule);
      texts.push_back(name.name);
    }
    const Matches matches = matcher_.Match(texts, separator);
    for (size_t i = 0; i < rules.size(); ++i) {
      wins[rules[i]] = matches.first[i] == static_cast<int32_t>(rules[i]);
    }
  }
  std::vector<RuleProof> out;
  for (uint32_t rule = 0; rule < size; ++rule) {
    out.push_back(
        wins[rule]
            ? RuleProof{RuleProof::Kind::kWins, std::move(names[rule].name), {}}
            : ProveRule(rule));
  }
  return out;
}

PairProof Prover::ProvePair(uint32_t first, uint32_t second) {
  using Kind = PairProof::Kind;
  PairProof proof;
  const std::array<uint32_t, 2> pair = {first, second};
  NameAnswer both = FindName(pair, {});
  if (both.answer == Answer::kNo) proof.kind = Kind::kApart;
  if (both.answer != Answer::kYes) return proof;
  proof.both = std::move(both.name);
  NameAnswer left = FindName({&first, 1}, {&second, 1});
  NameAnswer right = FindName({&second, 1}, {&first, 1});
  proof.only_first = std::move(left.name);
  proof.only_second = std::move(right.name);
  if (left.answer == Answer::kNotProven || right.answer == Answer::kNotProven) {
    return proof;
  }
  const bool more_left = left.answer == Answer::kYes;
  const bool more_right = right.answer == Answer::kYes;
  proof.kind = more_left ? (more_right ? Kind::kOverlap : Kind::kContains)
                         : (more_right ? Kind::kWithin : Kind::kSame);
  return proof;
}

RelatedRules ProvePairs(Prover& prover) {
  RelatedRules out;
  const Matcher& matcher = prover.matcher();
  const auto rules = static_cast<uint32_t>(matcher.size());
  bool either_separator = false;
  for (uint32_t r = 1; r < rules; ++r) {
    either_separator |= matcher.separator(r) != matcher.separator(0);
  }
  EarlierRules earlier;
  for (uint32_t second = 0; second < rules; ++second) {
    LiteralEnds ends = LiteralEndsOf(matcher.text(second), either_separator);
    if (!prover.HasWork()) {
      const int64_t open = earlier.Count(ends);
      out.pairs_not_proven += open;
      out.pairs_apart += int64_t{second} - open;
      earlier.Add(std::move(ends));
      continue;
    }
    const std::vector<uint32_t> possible = earlier.List(ends);
    earlier.Add(std::move(ends));
    out.pairs_apart += int64_t{second} - static_cast<int64_t>(possible.size());
    for (const uint32_t first : possible) {
      PairProof proof = prover.ProvePair(first, second);
      if (proof.kind == PairProof::Kind::kApart) {
        ++out.pairs_apart;
      } else if (proof.kind == PairProof::Kind::kNotProven) {
        ++out.pairs_not_proven;
      } else {
        out.pairs.push_back({first, second, std::move(proof)});
      }
    }
  }
  return out;
}

PatternProof Contains(const Pattern& outer, const Pattern& inner) {
  Findings ignored;
  const std::array patterns = {inner, outer};
  const auto matcher = Matcher::Compile(patterns, ignored);
  if (!matcher) return {};
  Prover prover(*matcher);
  constexpr uint32_t kInner = 0, kOuter = 1;
  NameAnswer name = prover.FindName({&kInner, 1}, {&kOuter, 1});
  switch (name.answer) {
    case Answer::kYes:
      return {Answer::kNo, std::move(name.name)};
    case Answer::kNo:
      return {Answer::kYes, ""};
    case Answer::kNotProven:
      break;
  }
  return {};
}

namespace {

// The number that represents "no rule".
constexpr uint32_t kNobody = UINT32_MAX;

bool SameRule(const RuledPattern& a, const RuledPattern& b) {
  return a.outcome == b.outcome && a.pattern.text == b.pattern.text &&
         a.pattern.separator == b.pattern.separator;
}

// Compares two lists of rules. For each rule of the first list and each rule of
// the second list with another outcome, searches for a name whose first matches
// are these two rules. "No rule matches" is treated like a rule at the end of
// each list (kNobody). Rules that need no search:
//
// - Both lists may begin with equal rules. A name that one of these matches has
//   the same first match in both lists.
// - Both lists may end with equal rules. If both first matches of a name are
//   among these, each is the first of the equal rules that matches the name. So
//   they are the same rule.
class TwoLists {
 public:
  TwoLists(std::span<const RuledPattern> before,
           std::span<const RuledPattern> after)
      : before_(before), after_(after) {
    const size_t least = std::min(before.size(), after.size());
    while (head_ < least && SameRule(before[head_], after[head_])) ++head_;
    while (tail_ < least - head_ && SameRule(before[before.size() - 1 - tail_],
                                             after[after.size() - 1 - tail_])) {
      ++tail_;
    }
  }

  // Proves that every name has the same outcome in both lists, or finds a name
  // whose outcomes differ.
  PatternProof Compare(Prover& prover) const {
    PatternProof proof{Answer::kYes, ""};
    for (const uint32_t b : Winners(before_)) {
      for (const uint32_t a : Winners(after_)) {
        if (!MayDiffer(b, a)) continue;
        NameAnswer name = FindBetween(prover, b, a);
        if (name.answer == Answer::kYes) {
          return {Answer::kNo, std::move(name.name)};
        }
        if (name.answer == Answer::kNotProven) proof = {};
      }
    }
    return proof;
  }

 private:
  std::vector<uint32_t> Winners(std::span<const RuledPattern> list) const {
    std::vector<uint32_t> out;
    for (size_t i = head_; i < list.size(); ++i) {
      out.push_back(static_cast<uint32_t>(i));
    }
    out.push_back(kNobody);
    return out;
  }

  bool InMiddle(uint32_t rule, size_t size) const {
    return rule != kNobody && rule < size - tail_;
  }

  bool MayDiffer(uint32_t b, uint32_t a) const {
    if (!InMiddle(b, before_.size()) && !InMiddle(a, after_.size())) {
      return false;
    }
    return b == kNobody || a == kNobody ||
           before_[b].outcome != after_[a].outcome;
  }

  // Searches for a name whose first match is the rule `b` of the first list and
  // the rule `a` of the second list.
  NameAnswer FindBetween(Prover& prover, uint32_t b, uint32_t a) const {
    const auto of_after = [&](size_t rule) {
      return static_cast<uint32_t>(before_.size() + rule);
    };
    std::vector<uint32_t> all, none;
    const size_t before = std::min<size_t>(b, before_.size());
    const size_t after = std::min<size_t>(a, after_.size());
    if (b != kNobody) all.push_back(b);
    if (a != kNobody) all.push_back(of_after(a));
    for (size_t r = 0; r < before; ++r) {
      none.push_back(static_cast<uint32_t>(r));
    }
    for (size_t r = head_; r < after; ++r) none.push_back(of_after(r));
    return prover.FindName(all, none);
  }

  std::span<const RuledPattern> before_, after_;
  // The number of equal rules at the beginning of both lists.
  size_t head_ = 0;
  size_t tail_ = 0;  // The number of equal rules at the end of both lists.
};

}  // namespace

PatternProof SameOutcomes(std::span<const RuledPattern> before,
                          std::span<const RuledPattern> after) {
  Findings ignored;
  std::vector<Pattern> patterns;
  for (const RuledPattern& rule : before) patterns.push_back(rule.pattern);
  for (const RuledPattern& rule : after) patterns.push_back(rule.pattern);
  const auto matcher = Matcher::Compile(patterns, ignored);
  if (!matcher) return {};
  Prover prover(*matcher);
  return TwoLists(before, after).Compare(prover);
}

// Searches for a name that some patterns match (the wanted patterns) and other
// patterns do not (the avoided patterns). The search is breadth-first over
// texts. For each text, it computes the positions that the text reaches in the
// patterns. For example, {attn 1} is the position after one character of
// `attn`. If several texts reach the same positions, the search keeps only the
// first of them, which is a shortest one.
//
// More texts can be dropped (antichains, De Wulf and others, CAV 2006). A text
// A is at least as good as a text B if every continuation that makes B a
// solution also makes A a solution. That is the case if A's positions in the
// wanted patterns include B's, and B's positions in the avoided patterns
// include A's. In this example, `kernel$` is wanted and `attn` is avoided:
//
//   text  wanted      avoided
//   ""    {}          {}        the search begins here
//   "x"   {}          {}        "" is as good: dropped
//   "a"   {}          {attn 1}  "" is as good: dropped
//   "k"   {kernel 1}  {}        kept
//
// Texts that approach an avoided pattern are thus dropped at once, and the
// search stays small where a product of deterministic automata would be large.

namespace {

constexpr size_t kMostTexts = 20'000;

// The code points that a name may contain.
const CharSet& NameCharacters() {
  static const CharSet set = {
      {0x20, 0x7E}, {0xA0, 0xD7FF}, {0xE000, kLastCodePoint}};
  return set;
}

// Returns the code point of the set that is most readable in an example name.
// The first element of the pair is its rank, where 0 is the most readable.
// Returns nullopt if a name may contain no code point of the set.
std::optional<std::pair<size_t, uint32_t>> BestLetter(const CharSet& members) {
  constexpr std::string_view kBest =
      "xabcdefghijklmnopqrstuvwyz0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZ/.-";
  for (size_t i = 0; i < kBest.size(); ++i) {
    const auto point = static_cast<unsigned char>(kBest[i]);
    if (Contains(members, point)) return std::pair(i, uint32_t{point});
  }
  for (const CodeRange& range : NameCharacters()) {
    for (const CodeRange& own : members) {
      const uint32_t low = std::max(range.low, own.low);
      if (low <= std::min(range.high, own.high)) {
        return std::pair(kBest.size() + low, low);
      }
    }
  }
  return std::nullopt;
}

struct Letter {
  size_t rank = 0;
  uint32_t point = 0;
  uint32_t symbol = 0;
};

// A text that the search has reached.
struct Text {
  NfaPlace place;
  uint32_t found = 0;  // The wanted patterns that have matched, as bits.
  // The index in texts_ of the text without its last character.
  size_t before = 0;
  uint32_t letter = 0;
};

class Search {
 public:
  Search(const Nfa& nfa, size_t wanted, int64_t& work);
  NameAnswer Run();

 private:
  enum class Next : uint8_t { kGoOn, kName, kStop };

  bool Mark(std::span<const uint32_t> found, uint32_t& mask) const;
  bool IsName(const Text& text);
  bool IsNeeded(const Text& text);
  bool IsAsGood(const Text& known, const Text& text);
  Next Extend(size_t at, const Letter& letter);
  const std::vector<bool>& DeadFor(uint32_t mask);
  std::string NameOf(size_t at) const;

  const Nfa& nfa_;
  const uint32_t all_;  // The bits of all wanted patterns.
  const size_t wanted_;
  int64_t& work_;
  Stepper stepper_;
  // The part of the stepper's work that is already subtracted from work_.
  int64_t stepped_ = 0;
  // The nodes of avoided patterns have this index or a larger one.
  uint32_t first_avoided_ = 0;
  std::vector<Letter> letters_;  // The most readable letter is first.
  std::vector<Text> texts_;
  // The results of DeadFor(), indexed by its argument `mask`.
  std::vector<std::vector<bool>> dead_;
  std::vector<uint32_t> found_;
};

Search::Search(const Nfa& nfa, size_t wanted, int64_t& work)
    : nfa_(nfa),
      all_((uint32_t{1} << wanted) - 1),
      wanted_(wanted),
      work_(work),
      stepper_(nfa, Stepper::Begin::kEverywhere),
      dead_(size_t{all_} + 1) {
  for (uint32_t n = 0; n < nfa.nodes.size(); ++n) {
    if (nfa.nodes[n].pattern < wanted) first_avoided_ = n + 1;
  }
  const auto members = nfa.alphabet.Members();
  for (uint32_t symbol = 0; symbol < members.size(); ++symbol) {
    if (const auto best = BestLetter(members[symbol])) {
      letters_.push_back({best->first, best->second, symbol});
    }
  }
  std::sort(letters_.begin(), letters_.end(),
            [](const Letter& a, const Letter& b) { return a.rank < b.rank; });
}

// Returns which patterns the stepper may ignore, indexed by pattern: those
// whose bits are set in `mask`. The text that was read so far already contains
// a match of each of these patterns, so the search need not begin another match
// of the same pattern.
const std::vector<bool>& Search::DeadFor(uint32_t mask) {
  std::vector<bool>& dead = dead_[mask];
  if (dead.empty()) {
    dead.resize(nfa_.patterns() + 1);
    for (size_t p = 0; p < wanted_; ++p) dead[p] = (mask >> p & 1) != 0;
  }
  return dead;
}

// Adds the bits of the patterns in `found` to `mask`. Returns false if `found`
// has an avoided pattern.
bool Search::Mark(std::span<const uint32_t> found, uint32_t& mask) const {
  for (uint32_t pattern : found) {
    if (pattern >= wanted_) return false;
    mask |= uint32_t{1} << pattern;
  }
  return true;
}

bool Search::IsName(const Text& text) {
  found_.clear();
  stepper_.End({std::span<const uint32_t>(text.place.nodes), text.place.before},
               DeadFor(text.found), found_);
  uint32_t mask = text.found;
  return Mark(found_, mask) && mask == all_;
}

// Returns whether every continuation that makes `text` a solution also makes
// `known` a solution, so that `text` can be dropped.
bool Search::IsAsGood(const Text& known, const Text& text) {
  if (known.place.before != text.place.before ||
      (known.found & text.found) != text.found) {
    return false;
  }
  const auto& ours = known.place.nodes;
  const auto& theirs = text.place.nodes;
  work_ -= static_cast<int64_t>(1 + (ours.size() + theirs.size()) / 8);
  const auto cut = [&](const std::vector<uint32_t>& nodes) {
    return std::lower_bound(nodes.begin(), nodes.end(), first_avoided_);
  };
  if (!std::includes(cut(theirs), theirs.end(), cut(ours), ours.end())) {
    return false;
  }
  return std::all_of(theirs.begin(), cut(theirs), [&](uint32_t node) {
    return (known.found >> nfa_.nodes[node].pattern & 1) != 0 ||
           std::binary_search(ours.begin(), cut(ours), node);
  });
}

bool Search::IsNeeded(const Text& text) {
  return std::none_of(texts_.begin(), texts_.end(),
                      [&](const Text& known) { return IsAsGood(known, text); });
}

Search::Next Search::Extend(size_t at, const Letter& letter) {
  Text next;
  next.found = texts_[at].found;
  next.before = at;
  next.letter = letter.point;
  found_.clear();
  const NfaPlace& from = texts_[at].place;
  stepper_.Step({std::span<const uint32_t>(from.nodes), from.before},
                letter.symbol, DeadFor(next.found), next.place, found_);
  work_ -= stepper_.work() - stepped_ + 1;
  stepped_ = stepper_.work();
  if (work_ < 0) return Next::kStop;
  if (!Mark(found_, next.found)) return Next::kGoOn;
  std::erase_if(next.place.nodes, [&](uint32_t node) {
    return DeadFor(next.found)[nfa_.nodes[node].pattern];
  });
  if (!IsNeeded(next)) return Next::kGoOn;
  const bool is_name = IsName(next);
  texts_.push_back(std::move(next));
  if (is_name) return Next::kName;
  return texts_.size() < kMostTexts ? Next::kGoOn : Next::kStop;
}

std::string Search::NameOf(size_t at) const {
  std::vector<uint32_t> letters;
  for (; at != 0; at = texts_[at].before) {
    letters.push_back(texts_[at].letter);
  }
  std::string name;
  for (size_t i = letters.size(); i > 0;) {
    --i;
    AppendUtf8(name, letters[i]);
  }
  return name;
}

NameAnswer Search::Run() {
  Text empty;
  if (!Mark(nfa_.everywhere, empty.found)) return {Answer::kNo, "", 0};
  texts_.push_back(empty);
  for (size_t at = 0; at < texts_.size(); ++at) {
    for (const Letter& letter : letters_) {
      switch (Extend(at, letter)) {
        case Next::kGoOn:
          break;
        case Next::kName:
          return {Answer::kYes, NameOf(texts_.size() - 1), 0};
        case Next::kStop:
          return {};
      }
    }
  }
  return {Answer::kNo, "", 0};
}

}  // namespace

NameAnswer SearchName(std::span<const NfaPattern> all,
                      std::span<const NfaPattern> none, char separator,
                      int64_t& work) {
  std::vector<NfaPattern> patterns(all.begin(), all.end());
  patterns.insert(patterns.end(), none.begin(), none.end());
  if (work <= 0) return {};
  const auto nfa = Nfa::Build(patterns, separator, Prefixes::kOwn);
  if (!nfa || std::count(nfa->inside.begin(), nfa->inside.end(), false) > 0) {
    return {};
  }
  work -= static_cast<int64_t>(nfa->nodes.size());
  NameAnswer answer = Search(*nfa, all.size(), work).Run();
  answer.separator = separator;
  return answer;
}

}  // namespace shardc
