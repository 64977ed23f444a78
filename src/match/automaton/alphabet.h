// The alphabet of an automaton. Its symbols are classes of code points that all
// patterns of a list treat in the same way. Rules about `layers/\d+/attn` need
// about fifteen symbols, which keeps the tables of the automata small.
#ifndef SHARDC_MATCH_AUTOMATON_ALPHABET_H_
#define SHARDC_MATCH_AUTOMATON_ALPHABET_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "match/automaton/char_set.h"

namespace shardc {

// The kinds of character on either side of a position, on which assertions
// depend.
enum class Neighbour : uint8_t { kEdge, kWord, kNewline, kOther };

// Returns, as bits, the assertions that hold between two characters of these
// kinds. kEdge is the beginning or the end of the text.
unsigned HoldingBetween(Neighbour before, Neighbour next);

class Alphabet {
 public:
  Alphabet() = default;
  // Makes the alphabet for the sets of characters and the assertions (as bits)
  // that the patterns use.
  Alphabet(std::span<const CharSet> sets, unsigned assertions);

  uint32_t symbols() const { return static_cast<uint32_t>(kinds_.size()); }
  uint32_t SymbolOf(uint32_t point) const;
  // Returns the symbols of the code points below 0x80.
  const std::array<uint32_t, 128>& ascii() const { return ascii_; }
  Neighbour KindOf(uint32_t symbol) const { return kinds_[symbol]; }
  // Returns whether `symbol` is in set number `set` of the constructor's sets.
  bool Holds(uint32_t set, uint32_t symbol) const {
    return holds_[set * kinds_.size() + symbol] != 0;
  }
  // Returns the code points of each symbol.
  std::vector<CharSet> Members() const;

 private:
  struct Stretch {
    uint32_t low = 0;
    uint32_t symbol = 0;
  };
  std::vector<Stretch> stretches_;  // ascending, the first at 0
  std::vector<Neighbour> kinds_;    // indexed by symbol
  std::vector<uint8_t> holds_;      // indexed by set and symbol: 1 or 0
  std::array<uint32_t, 128> ascii_{};
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_ALPHABET_H_
