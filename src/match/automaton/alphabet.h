// Code points that no pattern of a list tells apart are one symbol: rules
// about `layers/\d+/attn` need some fifteen, and automata are tables over
// symbols.
#ifndef SHARDC_MATCH_AUTOMATON_ALPHABET_H_
#define SHARDC_MATCH_AUTOMATON_ALPHABET_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "match/automaton/char_set.h"

namespace shardc {

// What assertions look at: what stands before and behind a place.
enum class Beside : uint8_t { kEdge, kWord, kNewline, kOther };

// Assertion bits that hold between the two; kEdge is the text's beginning or
// end.
unsigned HoldingBetween(Beside before, Beside next);

class Alphabet {
 public:
  // `assertions` are the bits that the patterns use.
  Alphabet() = default;
  Alphabet(std::span<const CharSet> sets, unsigned assertions);

  uint32_t symbols() const { return static_cast<uint32_t>(kinds_.size()); }
  uint32_t SymbolOf(uint32_t point) const;
  // Below 0x80; for scanning.
  const std::array<uint32_t, 128>& ascii() const { return ascii_; }
  Beside KindOf(uint32_t symbol) const { return kinds_[symbol]; }
  // Is `symbol` in the set number `set` of those given?
  bool Holds(uint32_t set, uint32_t symbol) const {
    return holds_[set * kinds_.size() + symbol] != 0;
  }
  // The code points of each symbol.
  std::vector<CharSet> Members() const;

 private:
  struct Stretch {
    uint32_t low = 0;
    uint32_t symbol = 0;
  };
  std::vector<Stretch> stretches_;  // ascending, the first at 0
  std::vector<Beside> kinds_;       // by symbol
  std::vector<uint8_t> holds_;      // by set and symbol: 1 or 0
  std::array<uint32_t, 128> ascii_{};
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_ALPHABET_H_
