// One nondeterministic finite automaton (NFA) for all patterns of a list. It
// reads the symbols of an alphabet.
#ifndef SHARDC_MATCH_AUTOMATON_NFA_H_
#define SHARDC_MATCH_AUTOMATON_NFA_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "match/automaton/pattern_tree.h"

namespace shardc {

// The alphabet of an automaton. A symbol is a class of code points that no
// pattern of the list distinguishes. If the patterns use digits only in `\d`,
// for example, the ten digits are one symbol. Few symbols keep the tables of
// the automata small.

// The kinds of characters that an assertion such as `\b` distinguishes before
// and after a position. kEdge is the beginning or the end of the text.
enum class Neighbour : uint8_t { kEdge, kWord, kNewline, kOther };

// Returns, as bits, the assertions that are true at a position between
// characters of these two kinds.
unsigned HoldingBetween(Neighbour before, Neighbour next);

class Alphabet {
 public:
  Alphabet() = default;
  // Makes the alphabet for patterns that use these sets of characters and these
  // assertions (as bits of Assertion).
  Alphabet(std::span<const CharSet> sets, unsigned assertions);

  uint32_t symbols() const { return static_cast<uint32_t>(kinds_.size()); }
  uint32_t SymbolOf(uint32_t point) const;
  // Returns an array that maps each code point below 0x80 to its symbol.
  const std::array<uint32_t, 128>& ascii() const { return ascii_; }
  Neighbour KindOf(uint32_t symbol) const { return kinds_[symbol]; }
  // Returns whether `symbol` is in the set with the index `set` in the list
  // that was passed to the constructor.
  bool Holds(uint32_t set, uint32_t symbol) const {
    return holds_[set * kinds_.size() + symbol] != 0;
  }
  // Returns the code points of each symbol, indexed by symbol.
  std::vector<CharSet> Members() const;

 private:
  struct Stretch {
    uint32_t low = 0;
    uint32_t symbol = 0;
  };
  // The stretches, ascending by `low`. Each ends before the next one begins.
  std::vector<Stretch> stretches_;
  // The kind of each symbol's characters, indexed by symbol.
  std::vector<Neighbour> kinds_;
  // For each set and symbol: 1 if the set has the symbol; see Holds().
  std::vector<uint8_t> holds_;
  std::array<uint32_t, 128> ascii_{};
};

struct NfaPattern {
  std::string_view text;
  // The character with which the pattern `text` separates the parts of a name:
  // `/` or `.`.
  char separator = '/';
};

// Whether patterns with a common prefix share the nodes of the prefix
// (kShared), or each pattern has separate nodes (kOwn).
enum class Prefixes : bool { kOwn, kShared };

struct Nfa {
  struct Node {
    enum class Kind : uint8_t {
      kSet,     // Reads a symbol of set `set` and goes to `next`.
      kFork,    // Goes to `next` and to `other` without reading.
      kAssert,  // Goes to `next` if `assertion` is true here.
      kFound,   // The pattern matches.
    };
    Kind kind = Kind::kFound;
    Assertion assertion = kTextBegin;
    uint32_t set = 0;
    uint32_t next = 0;
    uint32_t other = 0;
    // The index of the pattern to which the node belongs; patterns() if several
    // patterns share the node.
    uint32_t pattern = 0;
  };

  std::vector<Node> nodes;
  // Indexed by pattern: whether the automaton supports the pattern. If not, RE2
  // must match it.
  std::vector<bool> inside;
  // Indexed by pattern: whether the automaton supports the pattern and a match
  // of it may begin at any position of a name.
  std::vector<bool> begins_anywhere;
  // Indexed by pattern: whether the automaton supports the pattern and the
  // pattern is anchored at the beginning of a name.
  std::vector<bool> begins_at_start;
  // Indexed by Node::pattern: the assertions of the pattern, as bits. The last
  // element has the assertions of all patterns, for shared nodes.
  std::vector<uint8_t> asserts;
  Alphabet alphabet;
  // How a match may begin. `after_first` is indexed by symbol. It has the
  // indices of the nodes that become active if a match begins with this symbol,
  // at any position of a name. The two other lists have the kAssert nodes with
  // which patterns begin. Nodes in `begin_anchored` assert the beginning of the
  // text and are tried only there. Nodes in `begin_asserted` have other
  // assertions, such as `\b`, and are tried at every position.
  std::vector<std::vector<uint32_t>> after_first;
  std::vector<uint32_t> begin_anchored;
  std::vector<uint32_t> begin_asserted;
  // The indices of the patterns that match every text.
  std::vector<uint32_t> everywhere;

  // Builds the automaton for names that use `separator`. The separator with
  // which a pattern is written, such as `/`, then matches the separator of the
  // names, such as `.`. If `separator` is 0, each pattern matches its own
  // separator. Returns nullopt if the patterns together exceed a limit.
  static std::optional<Nfa> Build(std::span<const NfaPattern> patterns,
                                  char separator, Prefixes prefixes);

  size_t patterns() const { return inside.size(); }
};

using NodeKind = Nfa::Node::Kind;

class RuleSets {
 public:
  // Returns the number of the set `rules`, which must be ascending. Equal sets
  // have equal numbers.
  uint32_t Number(std::span<const uint32_t> rules) {
    const uint64_t hash = HashOf(rules);
    auto [at, end] = by_hash_.equal_range(hash);
    for (; at != end; ++at) {
      const auto known = Of(at->second);
      if (std::equal(known.begin(), known.end(), rules.begin(), rules.end())) {
        return at->second;
      }
    }
    const auto number = static_cast<uint32_t>(size());
    all_.insert(all_.end(), rules.begin(), rules.end());
    begin_.push_back(all_.size());
    by_hash_.emplace(hash, number);
    return number;
  }

  std::span<const uint32_t> Of(uint32_t number) const {
    return std::span(all_).subspan(begin_[number],
                                   begin_[number + 1] - begin_[number]);
  }
  size_t size() const { return begin_.size() - 1; }

 private:
  static uint64_t HashOf(std::span<const uint32_t> rules) {
    uint64_t hash = rules.size();
    for (uint32_t rule : rules) {
      hash = (hash ^ rule) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return hash;
  }

  std::vector<uint32_t> all_;
  // Set number n is the range from all_[begin_[n]] up to, but not including,
  // all_[begin_[n + 1]].
  std::vector<size_t> begin_ = {0};
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_NFA_H_
