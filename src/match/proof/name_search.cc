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
#include "match/proof/name_search.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "match/automaton/stepper.h"

namespace shardc {
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
