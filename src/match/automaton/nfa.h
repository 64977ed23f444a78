// The patterns of a list as one nondeterministic automaton over symbols.
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
  char separator = '/';  // the one the pattern is written for
};

// Whether patterns with the same beginning have it in common.
enum class Prefixes : bool { kOwn, kShared };

struct Nfa {
  struct Node {
    enum class Kind : uint8_t {
      kSet,     // a symbol of set `set`, then `next`
      kFork,    // `next` or `other`
      kAssert,  // where `assertion` holds, `next`
      kFound,   // the pattern is found
    };
    Kind kind = Kind::kFound;
    Assertion assertion = kTextBegin;
    uint32_t set = 0;
    uint32_t next = 0;
    uint32_t other = 0;
    uint32_t pattern = 0;  // patterns() for what several share
  };

  std::vector<Node> nodes;
  std::vector<bool> inside;           // by pattern; if not, RE2 has to match it
  std::vector<bool> begins_anywhere;  // by pattern: not only at the beginning
  std::vector<bool> begins_at_start;  // by pattern: only there
  std::vector<uint8_t> asserts;       // by Node::pattern: assertion bits
  Alphabet alphabet;
  // A search may begin at every place. Where a symbol leads from there, and
  // what stands behind an assertion first: those of the text's beginning,
  // which need no second look, and the others.
  std::vector<std::vector<uint32_t>> begun;  // by symbol: nodes
  std::vector<uint32_t> begin_anchored;
  std::vector<uint32_t> begin_asserted;
  std::vector<uint32_t> everywhere;  // patterns found in every text

  // In names separated by `separator` (0: as they are), where each pattern
  // reads its own separator. Nothing when there is too much to make tables
  // of.
  static std::optional<Nfa> Build(std::span<const NfaPattern> patterns,
                                  char separator, Prefixes prefixes);

  size_t patterns() const { return inside.size(); }
  // Some pattern has the assertion.
  bool Uses(Assertion assertion) const;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_NFA_H_
