// The syntax tree of a pattern.
//
// The automata determine whether a pattern matches, not where. Therefore the
// tree does not record groups, and does not distinguish greedy from lazy
// repetition.
#ifndef SHARDC_MATCH_AUTOMATON_PATTERN_TREE_H_
#define SHARDC_MATCH_AUTOMATON_PATTERN_TREE_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "source/utf8.h"

namespace shardc {

struct CodeRange {
  uint32_t low = 0;
  uint32_t high = 0;  // The last code point, which is part of the range.
  auto operator<=>(const CodeRange&) const = default;
};

// A set of code points: ascending ranges that neither overlap nor touch.
// Canonical() makes such a set from any ranges.
using CharSet = std::vector<CodeRange>;

CharSet Canonical(std::vector<CodeRange> ranges);
CharSet Complement(const CharSet& set);
bool Contains(const CharSet& set, uint32_t point);

// Appends to `out` the range and those characters that RE2 matches with a
// character of the range when it ignores case. `k` adds `K` and the Kelvin
// sign, `s` adds `S` and the long s. Returns false, and appends nothing, for a
// range that has characters above ASCII, because these would need Unicode
// tables.
bool AddFolded(CodeRange range, std::vector<CodeRange>& out);

// Assertions match the empty string at certain positions of a text. Each
// assertion is a bit, so that one number can store all assertions that are true
// at a position.
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
    kPoint,      // Matches the code point `point`.
    kSet,        // Matches one code point of `set`; if it is empty, nothing.
    kAssertion,  // Matches the empty string if `assertion` is true.
    // Matches all of `parts` in order; if there are none, the empty string.
    kSequence,
    kChoice,  // Matches any one of `parts`.
    kRepeat,  // Matches `parts[0]`, `least` to `most` times.
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

using TreeKind = PatternTree::Kind;

// Shortens the pattern so that it still has a match somewhere in the same
// texts. Optional parts at both ends are removed, and repetitions there are
// reduced to their minimum: `.*a+b*` becomes `a`.
void TrimEnds(PatternTree& tree);

// Returns the number of nodes that the tree needs in an automaton, or 2^40 if
// it needs more.
int64_t NodesOf(const PatternTree& tree);

// Returns whether the pattern can match only at the beginning of a text.
bool IsAnchored(const PatternTree& tree);

// Returns all assertions of the pattern, as bits.
uint8_t AssertionsOf(const PatternTree& tree);

// Parses a pattern that RE2 accepts. Returns nullopt if the pattern uses a
// feature that this parser does not support: `\pL` and other Unicode groups,
// `\C`, `\Q`, octal escapes, ignoring the case of characters above ASCII, very
// deep groups or very large classes.
std::optional<PatternTree> ReadPatternTree(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_PATTERN_TREE_H_
