// Computes the symbols of an alphabet: classes of code points that no pattern
// distinguishes. The code points are divided into stretches wherever a
// character set of a pattern begins or ends. At first all stretches have the
// same symbol. Then each set splits the symbols of which it contains only some
// of the stretches. With the sets [a-z], [aeiou] and `.`:
//
//   stretches  ... | \n | ... | a | b c d | e | f ...
//   symbols    vowels; other letters; newline; all other characters
#include "match/automaton/alphabet.h"

#include <algorithm>
#include <unordered_map>

#include "match/automaton/pattern_tree.h"

namespace shardc {
namespace {

const CharSet& WordSet() {
  static const CharSet set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
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
  for (const Stretch& stretch : stretches_) {
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
