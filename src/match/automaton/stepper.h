// Computes the steps of the NFA: the set of active nodes that follows a set of
// active nodes and a symbol. Matching a name is a sequence of such steps. The
// proofs about all possible names (match/proof) are searches over such steps.
#ifndef SHARDC_MATCH_AUTOMATON_STEPPER_H_
#define SHARDC_MATCH_AUTOMATON_STEPPER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "match/automaton/nfa.h"

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_STEPPER_H_
