// A pattern as our own automata take it.
//
// Only whether a pattern is found matters to them, not where: groups leave no
// trace, and greedy and reluctant repetition are the same.
#ifndef SHARDC_MATCH_AUTOMATON_PATTERN_TREE_H_
#define SHARDC_MATCH_AUTOMATON_PATTERN_TREE_H_

#include <cstdint>
#include <vector>

#include "match/automaton/char_set.h"

namespace shardc {

// Empty strings that hold only at certain places of a text. Bits, so that
// those that hold at one place are a number.
enum Assertion : uint8_t {
  kTextBegin = 1,
  kTextEnd = 2,
  kLineBegin = 4,
  kLineEnd = 8,
  kWordEdge = 16,
  kNoWordEdge = 32,
};

struct PatternTree {
  enum class Kind : uint8_t {
    kPoint,      // the code point `point`
    kSet,        // one code point of `set`; none if that is empty
    kAssertion,  // the empty string where `assertion` holds
    kSequence,   // `parts` one after the other; of none, the empty string
    kChoice,     // one of `parts`
    kRepeat,     // `parts[0]`, `least` to `most` times
  };
  static constexpr int kNoLimit = -1;

  Kind kind = Kind::kSequence;
  Assertion assertion = kTextBegin;
  int least = 0;
  int most = kNoLimit;
  uint32_t point = 0;
  CharSet set;
  std::vector<PatternTree> parts;

  bool operator==(const PatternTree&) const = default;
};

// The same found or not found in every text, but with fewer states: repeated
// parts at both ends only as often as they must be. `.*a+b*` becomes `a`.
void TrimEnds(PatternTree& tree);

// Nodes that it takes in an automaton.
int64_t NodesOf(const PatternTree& tree);

// Found at the text's beginning or not at all.
bool IsAnchored(const PatternTree& tree);

// The bits of its assertions.
uint8_t AssertionsOf(const PatternTree& tree);

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_PATTERN_TREE_H_
