// The states of the deterministic automaton of all patterns. States are built
// when a name first needs them.
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
  // States are dropped and rebuilt if they take more bytes than this.
  size_t bytes = size_t{16} << 20;
  // Limit of the nodes visited while states are built: a constant, and an
  // amount for each byte of names. Beyond it the automaton is given up.
  int64_t work = 8'000'000;
  int64_t work_per_byte = 16;
};

class StateTable {
 public:
  // Number of a state, from 1. Negative if no further byte can change the
  // result.
  using State = int32_t;
  static constexpr State kNotMade = 0;
  // In expected(): no byte is expected.
  static constexpr uint8_t kNone = 0x80;
  // Bytes that may be read beyond the end of expected().
  static constexpr size_t kPadding = 8;

  StateTable(const Nfa& nfa, RuleSets& sets, const AutomatonLimits& limits);

  // The state before the first byte.
  State Start();

  // The next state if it has been built, else kNotMade: by symbol, or by byte
  // (kNotMade above 0x7F).
  State Known(State from, uint32_t symbol) const {
    return cells_[AsIndex(from) * stride_ + symbol];
  }
  State KnownByte(State from, uint8_t byte) const {
    return Known(from, columns_[byte]);
  }
  // By state, the ASCII byte that leads to the next state number, or kNone. The
  // run of states that one name built is thus the run of its bytes here.
  const uint8_t* expected() const { return expected_.data(); }

  // Builds the state after `symbol`, which begins with `byte` in the text.
  // kNotMade if `allowed` nodes have been visited. All other states may be
  // dropped, which increments forgotten().
  State Make(State from, uint32_t symbol, uint8_t byte, int64_t allowed);

  // The set of patterns that match if the text ends here, as a number in
  // `sets`.
  uint32_t AtEnd(State state);

  size_t size() const { return states_.size() - 1; }
  uint32_t forgotten() const { return forgotten_; }

 private:
  static constexpr int32_t kUnknown = -1;
  struct Entry {
    size_t begin = 0;  // of its nodes in nodes_
    size_t size = 0;
    uint64_t hash = 0;
    uint32_t found = 0;         // in sets_
    int32_t at_end = kUnknown;  // in sets_
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
  const size_t
      stride_;  // number of symbols, and one column that is never filled
  std::array<uint32_t, 256> columns_{};    // by byte
  std::vector<uint32_t> begins_anywhere_;  // patterns
  std::vector<uint32_t> begins_anchored_;  // patterns

  std::vector<State> cells_;
  std::vector<uint8_t> expected_;
  std::vector<Entry> states_;    // entry 0 is not used
  std::vector<uint32_t> nodes_;  // of all states
  std::vector<uint32_t> slots_;  // hash table: number of a state, or 0
  State start_ = kNotMade;
  uint32_t forgotten_ = 0;

  std::vector<bool> dead_;  // by pattern: matched already, in the current state
  std::optional<uint32_t> dead_set_;  // the set that dead_ represents
  std::vector<uint32_t> found_;       // of one step
  NfaPlace to_;                       // of one step
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_STATE_TABLE_H_
