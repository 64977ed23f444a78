// The states of one deterministic automaton over all patterns, made when they
// are first asked for.
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

namespace shardc {

struct AutomatonLimits {
  // States are dropped and made anew when they take more than this.
  size_t bytes = size_t{16} << 20;
  // Nodes that making states may look at: so many, and so many more for each
  // byte of names. Beyond that it is given up.
  int64_t work = 8'000'000;
  int64_t work_per_byte = 16;
};

class StateTable {
 public:
  // Number of a state, from 1. Where nothing that follows matters, negative.
  using State = int32_t;
  static constexpr State kNotMade = 0;
  // In expected(): no byte.
  static constexpr uint8_t kNone = 0x80;
  // Bytes that may be read behind the last of expected().
  static constexpr size_t kPadding = 8;

  StateTable(const Nfa& nfa, RuleSets& sets, const AutomatonLimits& limits);

  // Before any byte.
  State Start();

  // As far as it is known: by symbol, or by a byte (kNotMade above 0x7F).
  State Known(State from, uint32_t symbol) const {
    return cells_[static_cast<size_t>(from) * stride_ + symbol];
  }
  State KnownByte(State from, uint8_t byte) const {
    return Known(from, columns_[byte]);
  }
  // By state, the ASCII byte that leads to the state numbered next, or kNone.
  // A run of states that the first name made is a run of its bytes here.
  const uint8_t* expected() const { return expected_.data(); }

  // Over `symbol`, which began with `byte` in the text. kNotMade when `allowed`
  // nodes have been looked at. All other states may be forgotten, which
  // forgotten() counts.
  State Make(State from, uint32_t symbol, uint8_t byte, int64_t allowed);

  // The set found where a text ends, in the sets given.
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
    Beside before = Beside::kEdge;
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
  const size_t stride_;  // of the symbols, and one that is never made
  std::array<uint32_t, 256> columns_{};    // by byte
  std::vector<uint32_t> begins_anywhere_;  // patterns
  std::vector<uint32_t> begins_anchored_;  // patterns

  std::vector<State> cells_;
  std::vector<uint8_t> expected_;
  std::vector<Entry> states_;    // the first is none
  std::vector<uint32_t> nodes_;  // of all states
  std::vector<uint32_t> slots_;  // hash table: number of a state, or 0
  State start_ = kNotMade;
  uint32_t forgotten_ = 0;

  std::vector<bool> dead_;            // by pattern: found, in the state at hand
  std::optional<uint32_t> dead_set_;  // whose they are
  std::vector<uint32_t> found_;       // of one step
  NfaPlace to_;                       // of one step
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_STATE_TABLE_H_
