// Builds the NFA by Thompson's construction. A node stores the numbers of the
// next nodes, so the nodes of a pattern are built from its last part to its
// first. For example, `ab*$` has these nodes, where `->` precedes the next
// nodes:
//
//   0 found   1 assert $ -> 0   2 fork -> 3, 1   3 set b -> 2   4 set a -> 2
//
// A match may begin at any position, so the first node of a pattern is active
// at every position. It is therefore not stored in the sets of active nodes.
// Instead, `after_first` lists for each symbol the nodes that become active
// when a match begins with the symbol. In the example, `a` activates node 2.
//
// If each of a hundred patterns that begin with `layers/\d+/` had its own
// nodes, a hundred nodes would be active at each position of this prefix.
// Patterns therefore share the nodes of a common prefix.
#include "match/automaton/nfa.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

#include "match/automaton/classes.h"
#include "match/automaton/pattern_tree.h"

namespace shardc {
namespace {

// The limits of the automaton. RE2 matches a pattern that has more than
// kPatternNodes nodes, or with which the total would exceed kAllNodes. If one
// of the three other limits is exceeded, RE2 matches all patterns.
constexpr int64_t kPatternNodes = 5'000;
constexpr int64_t kAllNodes = 400'000;
// The largest number of ranges of the classes of all patterns together.
constexpr size_t kAllRanges = 4'000'000;
constexpr size_t kMostBeginnings = 4'000'000;
constexpr size_t kMostSymbols = 250;
constexpr size_t kMostSets = 5'000;
// The largest recursion depth of PlaceAll(), which builds the nodes of a prefix
// that several patterns share, and calls itself for what follows this prefix.
// At the limit, the rest of each pattern gets separate nodes.
constexpr size_t kDeepestShared = 200;
// PlaceAll() groups patterns whose next part (a literal character, or for
// example `\d+`) is the same, and builds the nodes of this part once for each
// group. It makes at most this many groups for parts that are not a literal
// character. Patterns for which no group is left have separate nodes.
constexpr size_t kMostOtherParts = 16;

class Builder {
 public:
  Builder(char separator, Prefixes prefixes)
      : separator_(separator), prefixes_(prefixes) {}

  std::optional<Nfa> Build(std::span<const NfaPattern> patterns);

 private:
  // The last parts of a pattern, for which no nodes have been built yet.
  struct Rest {
    uint32_t pattern = 0;
    char separator = 0;
    std::span<const PatternTree> parts;
  };
  using Rests = std::vector<Rest>;

  uint32_t Put(Nfa::Node node) {
    node.pattern = pattern_;
    nfa_.nodes.push_back(node);
    return static_cast<uint32_t>(nfa_.nodes.size() - 1);
  }
  uint32_t PutFork(uint32_t next, uint32_t other) {
    Nfa::Node node;
    node.kind = NodeKind::kFork;
    node.next = next;
    node.other = other;
    return Put(node);
  }

  Rests Read(std::span<const NfaPattern> patterns);
  uint32_t PlaceRest(const Rest& rest);
  void PlaceAll(const Rests& rests, size_t depth,
                std::vector<uint32_t>& entries);
  static size_t CommonParts(const Rests& rests);
  uint32_t PlaceShared(Rests rests, size_t depth);
  uint32_t Place(const PatternTree& tree, uint32_t next);
  uint32_t PlaceRepeat(const PatternTree& tree, uint32_t next);
  uint32_t SetNumber(CharSet set);
  uint32_t PointNumber(uint32_t point);
  bool FindBeginnings(const std::vector<uint32_t>& entries);

  char separator_;
  Prefixes prefixes_;
  char wanted_ = 0;       // The separator of the current pattern.
  uint32_t pattern_ = 0;  // The pattern whose nodes are being built.
  Nfa nfa_;
  // Indexed by pattern: the syntax tree of the pattern. The root is always a
  // sequence: a pattern of one part, such as `a`, is a sequence of one part.
  std::vector<PatternTree> trees_;
  std::vector<CharSet> sets_;
  std::map<CharSet, uint32_t> set_numbers_;
  // Indexed by ASCII code point: the index in sets_ of the set that contains
  // only this code point.
  std::array<std::optional<uint32_t>, 128> points_;
};

uint32_t Builder::SetNumber(CharSet set) {
  // If a pattern has the separator `/` and the names have `.`, each dot of a
  // name counts as `/`. A set that contains `/` therefore gets `.`, and any
  // other set loses `.`. For example, `[^/]` then also excludes the dot.
  if (separator_ != 0 && wanted_ != 0 && separator_ != wanted_) {
    const auto own = static_cast<unsigned char>(separator_);
    const bool holds = Contains(set, static_cast<unsigned char>(wanted_));
    if (Contains(set, own) != holds) {
      CharSet rest = Complement(set);
      (holds ? set : rest).push_back({own, own});
      set = holds ? Canonical(std::move(set))
                  : Complement(Canonical(std::move(rest)));
    }
  }
  const auto next = static_cast<uint32_t>(sets_.size());
  const auto [at, fresh] = set_numbers_.try_emplace(std::move(set), next);
  if (fresh) sets_.push_back(at->first);
  return at->second;
}

// Returns the index in sets_ of the set for the literal character `point`. Most
// parts of a pattern are literals, so these indices are cached.
uint32_t Builder::PointNumber(uint32_t point) {
  const auto own = static_cast<unsigned char>(separator_);
  const auto wanted = static_cast<unsigned char>(wanted_);
  if (point >= points_.size() || point == own || point == wanted) {
    return SetNumber({{point, point}});
  }
  if (!points_[point]) points_[point] = SetNumber({{point, point}});
  return *points_[point];
}

// Builds the nodes of `tree`, with `next` as the node after them, and returns
// the first node.
uint32_t Builder::Place(const PatternTree& tree, uint32_t next) {
  Nfa::Node node;
  node.next = next;
  switch (tree.kind) {
    case PatternTree::Kind::kPoint:
      node.kind = NodeKind::kSet;
      node.set = PointNumber(tree.point);
      return Put(node);
    case PatternTree::Kind::kSet:
      node.kind = NodeKind::kSet;
      node.set = SetNumber(tree.set);
      return Put(node);
    case PatternTree::Kind::kAssertion:
      node.kind = NodeKind::kAssert;
      node.assertion = tree.assertion;
      return Put(node);
    case PatternTree::Kind::kSequence:
      for (size_t i = tree.parts.size(); i > 0;) {
        --i;
        next = Place(tree.parts[i], next);
      }
      return next;
    case PatternTree::Kind::kChoice: {
      uint32_t entry = Place(tree.parts.back(), next);
      for (size_t i = tree.parts.size() - 1; i > 0;) {
        --i;
        const uint32_t part = Place(tree.parts[i], next);
        entry = PutFork(part, entry);
      }
      return entry;
    }
    case PatternTree::Kind::kRepeat:
      return PlaceRepeat(tree, next);
  }
  return next;
}

uint32_t Builder::PlaceRepeat(const PatternTree& tree, uint32_t next) {
  const PatternTree& part = tree.parts[0];
  if (tree.most == PatternTree::kNoLimit) {
    const uint32_t loop = PutFork(next, next);
    nfa_.nodes[loop].next = Place(part, loop);
    next = loop;
  } else {
    const uint32_t past = next;
    for (int i = tree.least; i < tree.most; ++i) {
      next = PutFork(Place(part, next), past);
    }
  }
  for (int i = 0; i < tree.least; ++i) next = Place(part, next);
  return next;
}

uint32_t Builder::PlaceRest(const Rest& rest) {
  pattern_ = rest.pattern;
  wanted_ = rest.separator;
  uint32_t next = Put({});
  for (size_t i = rest.parts.size(); i > 0;) {
    --i;
    next = Place(rest.parts[i], next);
  }
  return next;
}

// Returns the number of leading parts that all `rests` have in common.
size_t Builder::CommonParts(const Rests& rests) {
  const Rest& first = rests[0];
  size_t common = first.parts.size();
  for (const Rest& rest : rests) {
    const auto end = std::mismatch(
        rest.parts.begin(), rest.parts.end(), first.parts.begin(),
        first.parts.begin() + static_cast<std::ptrdiff_t>(common));
    common = static_cast<size_t>(end.first - rest.parts.begin());
  }
  return common;
}

// Builds nodes for patterns with a common prefix of at least one part. The
// nodes of the prefix are built once. They lead to the nodes of the remaining
// parts of each pattern. Returns the first node.
uint32_t Builder::PlaceShared(Rests rests, size_t depth) {
  const std::span<const PatternTree> parts =
      rests[0].parts.first(CommonParts(rests));
  for (Rest& rest : rests) rest.parts = rest.parts.subspan(parts.size());
  std::vector<uint32_t> entries;
  PlaceAll(rests, depth + 1, entries);
  pattern_ = static_cast<uint32_t>(nfa_.patterns());
  wanted_ = rests[0].separator;
  uint32_t next = entries.back();
  for (size_t i = entries.size() - 1; i > 0;) {
    --i;
    next = PutFork(entries[i], next);
  }
  for (size_t i = parts.size(); i > 0;) {
    --i;
    next = Place(parts[i], next);
  }
  return next;
}

// Builds the nodes of the remaining parts of patterns (`rests`), and appends
// the first node of each to `entries`. Patterns that continue with the same
// part share its nodes, within the limits kDeepestShared and kMostOtherParts.
void Builder::PlaceAll(const Rests& rests, size_t depth,
                       std::vector<uint32_t>& entries) {
  std::map<std::pair<char, uint32_t>, Rests> points;
  std::vector<Rests> others;
  for (const Rest& rest : rests) {
    if (rest.parts.empty() || depth == kDeepestShared) {
      entries.push_back(PlaceRest(rest));
      continue;
    }
    const PatternTree& first = rest.parts[0];
    if (first.kind == PatternTree::Kind::kPoint) {
      points[{rest.separator, first.point}].push_back(rest);
      continue;
    }
    auto same = std::find_if(others.begin(), others.end(), [&](const Rests& o) {
      return o[0].separator == rest.separator && o[0].parts[0] == first;
    });
    if (same == others.end() && others.size() < kMostOtherParts) {
      same = others.insert(same, Rests());
    }
    if (same == others.end()) {
      entries.push_back(PlaceRest(rest));
    } else {
      same->push_back(rest);
    }
  }
  const auto place = [&](Rests& same) {
    entries.push_back(same.size() == 1 ? PlaceRest(same[0])
                                       : PlaceShared(std::move(same), depth));
  };
  for (auto& [point, same] : points) place(same);
  for (Rests& same : others) place(same);
}

size_t RangesOf(const PatternTree& tree) {
  size_t ranges = tree.set.size();
  for (const PatternTree& part : tree.parts) ranges += RangesOf(part);
  return ranges;
}

// Parses the patterns, and returns those that the automaton supports.
Builder::Rests Builder::Read(std::span<const NfaPattern> patterns) {
  int64_t all = 0;
  size_t ranges = 0;
  trees_.resize(patterns.size());
  Rests rests;
  for (uint32_t p = 0; p < patterns.size(); ++p) {
    nfa_.inside.push_back(false);
    nfa_.begins_anywhere.push_back(false);
    nfa_.begins_at_start.push_back(false);
    nfa_.asserts.push_back(0);
    auto tree = ReadPatternTree(patterns[p].text);
    if (!tree) continue;
    TrimEnds(*tree);
    const int64_t nodes = NodesOf(*tree);
    if (nodes > kPatternNodes || all + nodes > kAllNodes) continue;
    const size_t own = RangesOf(*tree);
    if (ranges + own > kAllRanges) continue;
    all += nodes;
    ranges += own;
    nfa_.inside[p] = true;
    nfa_.begins_at_start[p] = IsAnchored(*tree);
    nfa_.begins_anywhere[p] = !nfa_.begins_at_start[p];
    nfa_.asserts[p] = AssertionsOf(*tree);
    if (tree->kind == PatternTree::Kind::kSequence) {
      trees_[p] = std::move(*tree);
    } else {
      trees_[p].parts.push_back(std::move(*tree));
    }
    rests.push_back({p, patterns[p].separator, trees_[p].parts});
  }
  return rests;
}

// Follows kFork nodes from the first nodes of patterns (`entries`) to kSet,
// kAssert and kFound nodes. Fills `after_first`, `begin_anchored`,
// `begin_asserted` and `everywhere` (nfa.h) from these nodes. Returns false if
// the lists of `after_first` become too long.
bool Builder::FindBeginnings(const std::vector<uint32_t>& entries) {
  const Alphabet& alphabet = nfa_.alphabet;
  nfa_.after_first.resize(alphabet.symbols());
  size_t beginnings = 0;
  std::vector<bool> seen(nfa_.nodes.size());
  std::vector<uint32_t> stack(entries.rbegin(), entries.rend());
  while (!stack.empty()) {
    const uint32_t at = stack.back();
    stack.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const Nfa::Node& node = nfa_.nodes[at];
    switch (node.kind) {
      case NodeKind::kFork:
        stack.push_back(node.next);
        stack.push_back(node.other);
        break;
      case NodeKind::kAssert:
        (node.assertion == kTextBegin ? nfa_.begin_anchored
                                      : nfa_.begin_asserted)
            .push_back(at);
        break;
      case NodeKind::kFound:
        nfa_.everywhere.push_back(node.pattern);
        break;
      case NodeKind::kSet:
        for (uint32_t symbol = 0; symbol < alphabet.symbols(); ++symbol) {
          if (!alphabet.Holds(node.set, symbol)) continue;
          nfa_.after_first[symbol].push_back(node.next);
          if (++beginnings > kMostBeginnings) return false;
        }
        break;
    }
  }
  return true;
}

std::optional<Nfa> Builder::Build(std::span<const NfaPattern> patterns) {
  const Rests rests = Read(patterns);
  unsigned assertions = 0;
  for (uint8_t bits : nfa_.asserts) assertions |= bits;
  // `asserts` is indexed by pattern. Nodes that several patterns share belong
  // to no single pattern. They use this last element, the union of all others.
  nfa_.asserts.push_back(static_cast<uint8_t>(assertions));
  std::vector<uint32_t> entries;
  if (prefixes_ == Prefixes::kShared) {
    PlaceAll(rests, 0, entries);
  } else {
    for (const Rest& rest : rests) entries.push_back(PlaceRest(rest));
  }
  if (sets_.size() > kMostSets) return std::nullopt;
  nfa_.alphabet = Alphabet(sets_, assertions);
  if (nfa_.alphabet.symbols() > kMostSymbols || !FindBeginnings(entries)) {
    return std::nullopt;
  }
  return std::move(nfa_);
}

}  // namespace

std::optional<Nfa> Nfa::Build(std::span<const NfaPattern> patterns,
                              char separator, Prefixes prefixes) {
  return Builder(separator, prefixes).Build(patterns);
}

// Computes the symbols of an alphabet: classes of code points that no pattern
// distinguishes. The code points are divided into stretches wherever a
// character set of a pattern begins or ends. At first all stretches have the
// same symbol. Then each set splits the symbols of which it contains only some
// of the stretches. With the sets [a-z], [aeiou] and `.`:
//
//   stretches  ... | \n | ... | a | b c d | e | f ...
//   symbols    vowels; other letters; newline; all other characters

namespace {

const CharSet& WordSet() {
  static const CharSet set(WordRanges().begin(), WordRanges().end());
  return set;
}

}  // namespace

unsigned HoldingBetween(Neighbour before, Neighbour next) {
  unsigned holding = 0;
  if (before == Neighbour::kEdge) holding |= kTextBegin | kLineBegin;
  if (before == Neighbour::kNewline) holding |= kLineBegin;
  if (next == Neighbour::kEdge) holding |= kTextEnd | kLineEnd;
  if (next == Neighbour::kNewline) holding |= kLineEnd;
  const bool edge = (before == Neighbour::kWord) != (next == Neighbour::kWord);
  return holding | (edge ? kWordEdge : kNoWordEdge);
}

Alphabet::Alphabet(std::span<const CharSet> sets, unsigned assertions) {
  std::vector<CharSet> extra;
  if ((assertions & (kWordEdge | kNoWordEdge)) != 0) {
    extra.push_back(WordSet());
  }
  if ((assertions & (kLineBegin | kLineEnd)) != 0) {
    extra.push_back({{'\n', '\n'}});
  }
  std::vector<uint32_t> cuts = {0};
  const auto cut = [&](const CharSet& set) {
    for (const CodeRange& range : set) {
      cuts.push_back(range.low);
      if (range.high < kLastCodePoint) cuts.push_back(range.high + 1);
    }
  };
  for (const CharSet& set : sets) cut(set);
  for (const CharSet& set : extra) cut(set);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (uint32_t low : cuts) stretches_.push_back({low, 0});

  uint32_t count = 1;
  std::unordered_map<uint32_t, uint32_t> split;
  const auto refine = [&](const CharSet& set) {
    split.clear();
    for (const CodeRange& range : set) {
      auto at = std::lower_bound(
          stretches_.begin(), stretches_.end(), range.low,
          [](const Stretch& s, uint32_t low) { return s.low < low; });
      for (; at != stretches_.end() && at->low <= range.high; ++at) {
        const auto [to, fresh] = split.try_emplace(at->symbol, count);
        if (fresh) ++count;
        at->symbol = to->second;
      }
    }
  };
  for (const CharSet& set : sets) refine(set);
  for (const CharSet& set : extra) refine(set);

  // A stretch is a range of characters. The sets above have given new symbols
  // to stretches, so some symbols may have no stretch left. The other symbols
  // are renumbered, so that their numbers are consecutive.
  std::unordered_map<uint32_t, uint32_t> number;
  for (Stretch& stretch : stretches_) {
    const auto next = static_cast<uint32_t>(number.size());
    stretch.symbol = number.try_emplace(stretch.symbol, next).first->second;
  }
  kinds_.assign(number.size(), Neighbour::kOther);
  holds_.assign(sets.size() * kinds_.size(), 0);
  // A set has all stretches of a symbol or none, so one of them is enough.
  std::vector<bool> known(number.size());
  for (const Stretch& stretch : stretches_) {
    if (known[stretch.symbol]) continue;
    known[stretch.symbol] = true;
    for (size_t s = 0; s < sets.size(); ++s) {
      if (Contains(sets[s], stretch.low)) {
        holds_[s * kinds_.size() + stretch.symbol] = 1;
      }
    }
    if (Contains(WordSet(), stretch.low)) {
      kinds_[stretch.symbol] = Neighbour::kWord;
    } else if (stretch.low == '\n') {
      kinds_[stretch.symbol] = Neighbour::kNewline;
    }
  }
  for (uint32_t point = 0; point < ascii_.size(); ++point) {
    ascii_[point] = SymbolOf(point);
  }
}

uint32_t Alphabet::SymbolOf(uint32_t point) const {
  const auto after = std::upper_bound(
      stretches_.begin(), stretches_.end(), point,
      [](uint32_t at, const Stretch& s) { return at < s.low; });
  return std::prev(after)->symbol;
}

std::vector<CharSet> Alphabet::Members() const {
  std::vector<std::vector<CodeRange>> members(symbols());
  for (size_t i = 0; i < stretches_.size(); ++i) {
    const uint32_t high =
        i + 1 < stretches_.size() ? stretches_[i + 1].low - 1 : kLastCodePoint;
    members[stretches_[i].symbol].push_back({stretches_[i].low, high});
  }
  std::vector<CharSet> out;
  for (auto& ranges : members) out.push_back(Canonical(std::move(ranges)));
  return out;
}

}  // namespace shardc
