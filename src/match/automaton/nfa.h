// The patterns of a list as one nondeterministic finite automaton over symbols.
#ifndef SHARDC_MATCH_AUTOMATON_NFA_H_
#define SHARDC_MATCH_AUTOMATON_NFA_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "match/automaton/alphabet.h"
#include "match/automaton/pattern_tree.h"

namespace shardc {

struct NfaPattern {
  std::string_view text;
  char separator = '/';  // the separator in `text`
};

// Whether patterns with a common prefix share the nodes of the prefix (kShared)
// or each has nodes of its own (kOwn).
enum class Prefixes : bool { kOwn, kShared };

struct Nfa {
  struct Node {
    enum class Kind : uint8_t {
      kSet,     // reads a symbol of set `set` and goes to `next`
      kFork,    // goes to `next` and to `other`, without reading
      kAssert,  // goes to `next` if `assertion` holds here
      kFound,   // the pattern matches
    };
    Kind kind = Kind::kFound;
    Assertion assertion = kTextBegin;
    uint32_t set = 0;
    uint32_t next = 0;
    uint32_t other = 0;
    uint32_t pattern = 0;  // patterns() if several patterns share the node
  };

  std::vector<Node> nodes;
  std::vector<bool> inside;  // by pattern: whether the automaton matches it
  // By pattern: whether it has nodes and is not anchored at the beginning.
  std::vector<bool> begins_anywhere;
  // By pattern: whether it has nodes and is anchored at the beginning.
  std::vector<bool> begins_at_start;
  std::vector<uint8_t> asserts;  // by Node::pattern: its assertions, as bits
  Alphabet alphabet;
  // A match may begin at every position of a name. `after_first` has, for each
  // symbol, the nodes that are reached by a match that begins with the symbol.
  // Patterns that begin with an assertion are in other lists: those anchored at
  // the beginning of the text, which are tried once, and those with other
  // assertions.
  std::vector<std::vector<uint32_t>> after_first;  // indexed by symbol: nodes
  std::vector<uint32_t> begin_anchored;
  std::vector<uint32_t> begin_asserted;
  std::vector<uint32_t> everywhere;  // patterns that match every text

  // Builds the automaton for names with that `separator`: a separator in a
  // pattern, such as `/`, then matches the one in names, such as `.` (0: it
  // matches itself). Returns nullopt if the patterns together exceed a limit.
  static std::optional<Nfa> Build(std::span<const NfaPattern> patterns,
                                  char separator, Prefixes prefixes);

  size_t patterns() const { return inside.size(); }
  bool Uses(Assertion assertion) const;
};

using NodeKind = Nfa::Node::Kind;

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_NFA_H_
