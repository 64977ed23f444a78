// The states of the deterministic automaton of all patterns. A state is built
// when a name first needs it.
#ifndef SHARDC_MATCH_AUTOMATON_STATE_TABLE_H_
#define SHARDC_MATCH_AUTOMATON_STATE_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "match/automaton/nfa.h"
#include "match/automaton/rule_sets.h"
#include "match/automaton/stepper.h"
#include "source/index.h"

namespace shardc {

struct AutomatonLimits {
  // If the states take more bytes than this, all states are dropped, and built
  // again when names need them.
  size_t bytes = size_t{16} << 20;
  // The largest number of nodes that may be visited while states are built:
  // `work` plus `work_per_byte` for each byte of the names. If the number is
  // exceeded, the automaton is no longer used, and RE2 matches the remaining
  // names.
  int64_t work = 8'000'000;
  int64_t work_per_byte = 16;
};

class StateTable {
 public:
  // The number of a state, which is at least 1. The number is negated if no
  // further byte can change the result.
  using State = int32_t;
  static constexpr State kNotMade = 0;
  // Element n of expected() has this value if no ASCII byte leads from state n
  // to state n + 1.
  static constexpr uint8_t kNone = 0x80;
  // The number of bytes that may be read beyond the end of expected().
  static constexpr size_t kPadding = 8;

  StateTable(const Nfa& nfa, RuleSets& sets, const AutomatonLimits& limits);

  // Returns the state before the first byte.
  State Start();

  // Return the state after a symbol or a byte, or kNotMade if that state has
  // not been built. KnownByte() always returns kNotMade for a byte above 0x7F,
  // which is not a complete symbol.
  State Known(State from, uint32_t symbol) const {
    return cells_[AsIndex(from) * stride_ + symbol];
  }
  State KnownByte(State from, uint8_t byte) const {
    return Known(from, columns_[byte]);
  }
  // Returns an array whose element n is the ASCII byte that leads from state n
  // to state n + 1, or kNone. States are numbered in the order in which they
  // are built, so the bytes of a name that built several states in succession
  // are consecutive in this array.
  const uint8_t* expected() const { return expected_.data(); }

  // Builds the state after `symbol`, whose first byte in the text is `byte`.
  // Returns kNotMade if more than `allowed` nodes have been visited in total.
  // May drop all other states; forgotten() is then incremented.
  State Make(State from, uint32_t symbol, uint8_t byte, int64_t allowed);

  // Returns the set of patterns that match if the text ends in this state, as
  // the number of this set (RuleSets::Number).
  uint32_t AtEnd(State state);

  size_t size() const { return states_.size() - 1; }
  uint32_t forgotten() const { return forgotten_; }

 private:
  static constexpr int32_t kUnknown = -1;
  struct Entry {
    size_t begin = 0;  // The index in nodes_ of the entry's first node.
    size_t size = 0;
    uint64_t hash = 0;
    // Two sets of patterns, as numbers that sets_ has given them. `found` is
    // the set of patterns that have matched before this state or at it.
    // `at_end` is the set of patterns that match if the text ends here; it is
    // kUnknown until it is first needed.
    uint32_t found = 0;
    int32_t at_end = kUnknown;
    Neighbour before = Neighbour::kEdge;
    bool settled = false;
  };

  State Put(uint32_t found);
  size_t SlotOf(const Entry& entry) const;
  void Rehash();
  void Forget();
  size_t HeldBytes() const;
  uint32_t Merge(uint32_t before);
  void SetDead(uint32_t found);
  bool IsSettled(const Entry& entry);
  NfaPlaceView PlaceOf(const Entry& entry) const {
    return {std::span(nodes_).subspan(entry.begin, entry.size), entry.before};
  }

  const Nfa& nfa_;
  RuleSets& sets_;
  const size_t limit_bytes_;
  Stepper stepper_;
  // The number of cells of a state in cells_. There is one cell for each
  // symbol, and one for all bytes above 0x7F, which is always kNotMade.
  const size_t stride_;
  // Indexed by byte: the index of the byte's cell among the cells of a state.
  std::array<uint32_t, 256> columns_{};

  std::vector<State> cells_;
  std::vector<uint8_t> expected_;
  // The states, indexed by State; entry 0 is not used.
  std::vector<Entry> states_;
  // The nodes of all states, one state after the other.
  std::vector<uint32_t> nodes_;
  // A hash table of states: the number of a state, or 0 if empty.
  std::vector<uint32_t> slots_;
  State start_ = kNotMade;
  uint32_t forgotten_ = 0;

  // Indexed by pattern: whether the pattern has already matched. Its nodes are
  // then skipped.
  std::vector<bool> dead_;
  // The set of patterns whose element in dead_ is true, as the number that
  // sets_ has given it.
  std::optional<uint32_t> dead_set_;
  // The patterns that the current step has found.
  std::vector<uint32_t> found_;
  // The NFA's active nodes after the current step.
  NfaPlace to_;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_STATE_TABLE_H_
