// Directory: match/automaton. Compiles patterns to automata and matches names
// with them.
// Its files include headers of these directories: source.
//
// This file: matching names against all patterns by one automaton.
#ifndef SHARDC_MATCH_AUTOMATON_AUTOMATON_H_
#define SHARDC_MATCH_AUTOMATON_AUTOMATON_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "match/automaton/nfa.h"
#include "source/size.h"

namespace shardc {

// Computes the steps of the NFA: the set of active nodes that follows a set of
// active nodes and a symbol. Matching a name is a sequence of such steps. The
// proofs about all possible names (match/proof) are searches over such steps.

// The state of the NFA at a position of a text: the active nodes (kSet and
// kAssert nodes only, in ascending order) and the kind of character before the
// position.
struct NfaPlace {
  std::vector<uint32_t> nodes;
  Neighbour before = Neighbour::kEdge;
};
struct NfaPlaceView {
  std::span<const uint32_t> nodes;
  Neighbour before = Neighbour::kEdge;
};

// Computes the steps of an NFA. A Stepper has scratch memory, so each thread
// needs a separate Stepper.
class Stepper {
 public:
  // With kEverywhere, a match of a pattern may begin at every position. With
  // kNo, a step only continues from the given nodes.
  enum class Begin : bool { kNo, kEverywhere };

  Stepper(const Nfa& nfa, Begin begin);

  // Sets `to` to the NFA's state after it has read `symbol` in the state
  // `from`. `dead` is indexed by pattern: whether the pattern has already
  // matched, so that the step need not begin another match of it. Patterns
  // whose match ends just before or just after the symbol are appended to
  // `found`, some possibly twice. Nodes of these patterns may remain in `to`.
  void Step(NfaPlaceView from, uint32_t symbol, const std::vector<bool>& dead,
            NfaPlace& to, std::vector<uint32_t>& found);

  // Appends to `found` the patterns that match if the text ends at `at`.
  void End(NfaPlaceView at, const std::vector<bool>& dead,
           std::vector<uint32_t>& found);

  // Returns the number of nodes visited so far.
  int64_t work() const { return work_; }

 private:
  void NewRound();
  void Look(NfaPlaceView at, Neighbour next, const std::vector<bool>& dead,
            std::vector<uint32_t>& found);
  void Visit(uint32_t node, unsigned holding, std::vector<uint32_t>& out,
             std::vector<uint32_t>& found);
  Neighbour Behind(const NfaPlace& place, uint32_t symbol) const;

  const Nfa& nfa_;
  Begin begin_;
  // A pattern such as `\bq`, which begins with an assertion other than
  // kTextBegin, may begin at every position. These are all assertions of such
  // patterns, as bits. If one of them depends on the character before a
  // position, every state records the kind of this character.
  unsigned begin_asserts_ = 0;
  // Indexed by node: the value of round_ when the node was last visited.
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  std::vector<uint32_t> stack_;
  // The kSet nodes that the current step reaches through true assertions before
  // it reads the symbol.
  std::vector<uint32_t> here_;
  int64_t work_ = 0;
};

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

// Finds the patterns of a list that match a name. Each thread needs its own
// Automaton. The prefix that a name shares with the previous name is not read
// again, so callers should pass names with the same prefix one after the other.
class Automaton {
 public:
  // `nfa` and `sets` must outlive this object.
  Automaton(const Nfa& nfa, RuleSets& sets, const AutomatonLimits& limits = {});

  // Returns the set of patterns that match `name`, as the number of this set
  // (RuleSets::Number). The bytes of `name` must stay valid until the next
  // call. Returns nullopt if the caller must match the name by RE2: the bytes
  // that decide the result are not UTF-8, or a limit was reached.
  std::optional<uint32_t> Find(std::string_view name);

  // Returns the number of states that are in memory.
  size_t states() const { return table_.size(); }
  bool given_up() const { return given_up_; }

 private:
  using State = StateTable::State;

  // A part of the last name whose states have consecutive numbers: `state` is
  // the state before the byte at offset `at`, `state` + 1 the state one byte
  // later, and so on up to the offset of the next stretch.
  struct Stretch {
    size_t at = 0;
    State state = 0;
  };

  void Begin();
  size_t Shared(std::string_view name) const;
  bool Scan(std::string_view name, size_t at);
  State StepOver(State from, std::string_view name, size_t at, size_t& length);

  const Nfa& nfa_;
  const AutomatonLimits limits_;
  StateTable table_;

  std::string_view last_;
  std::vector<Stretch> stretches_;
  // The number of bytes of the last name whose states are known.
  size_t read_ = 0;
  // The state after the first read_ bytes of the last name.
  State state_ = 0;
  // True if the rest of the name cannot change the result.
  bool settled_ = false;
  uint32_t forgotten_ = 0;

  int64_t bytes_ = 0;  // The number of bytes of all names so far.
  bool given_up_ = false;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_AUTOMATON_H_
