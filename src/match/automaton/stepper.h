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

// Computes steps. A Stepper has scratch memory, so each thread needs a separate
// Stepper.
class Stepper {
 public:
  // With kEverywhere, a match of a pattern may begin at every position. With
  // kNo, a step only continues from the given nodes.
  enum class Begin : bool { kNo, kEverywhere };

  Stepper(const Nfa& nfa, Begin begin);

  // Sets `to` to the NFA's state after it has read `symbol` in the state
  // `from`. `dead` is indexed by pattern: the step begins no new match of a
  // dead pattern. Patterns whose match ends just before or just after the
  // symbol are appended to `found`, some possibly twice. Nodes of these
  // patterns may remain in `to`.
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
  // All assertions, as bits, of the patterns that begin with an assertion other
  // than kTextBegin, such as `\b`. Such a pattern may begin at every position.
  // If one of the assertions depends on the kind of the character before a
  // position, every state therefore records this kind.
  unsigned begin_asserts_ = 0;
  // Indexed by node: the value of round_ when the node was last visited.
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  std::vector<uint32_t> stack_;
  // The kSet nodes that follow assertions that are true here.
  std::vector<uint32_t> here_;
  int64_t work_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_STEPPER_H_
