// One nondeterministic finite automaton (NFA) for all patterns of a list. It
// reads the symbols of an alphabet (alphabet.h).
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
  bool Uses(Assertion assertion) const;
};

using NodeKind = Nfa::Node::Kind;

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_NFA_H_
