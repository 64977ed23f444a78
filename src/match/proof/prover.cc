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

#include "match/proof/literal_ends.h"

namespace shardc {
namespace {

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

}  // namespace shardc
