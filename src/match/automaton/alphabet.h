// The alphabet of an automaton. A symbol is a class of code points that no
// pattern of the list distinguishes. If the patterns use digits only in `\d`,
// for example, the ten digits are one symbol. Few symbols keep the tables of
// the automata small.
#ifndef SHARDC_MATCH_AUTOMATON_ALPHABET_H_
#define SHARDC_MATCH_AUTOMATON_ALPHABET_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "match/automaton/char_set.h"

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_ALPHABET_H_
