// The step of the NFA from one set of active nodes to the next. Both the
// matching of names and the proofs about all names use it.
#ifndef SHARDC_MATCH_AUTOMATON_STEPPER_H_
#define SHARDC_MATCH_AUTOMATON_STEPPER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "match/automaton/nfa.h"

namespace shardc {

// What is known at a position of a text: the active nodes (kSet and kAssert
// only, in ascending order) and the kind of character before the position.
struct NfaPlace {
  std::vector<uint32_t> nodes;
  Neighbour before = Neighbour::kEdge;
};
struct NfaPlaceView {
  std::span<const uint32_t> nodes;
  Neighbour before = Neighbour::kEdge;
};

// Computes steps. A Stepper has scratch memory, so each thread needs its own.
class Stepper {
 public:
  // With kEverywhere, a match of a pattern may begin at every position. With
  // kNo, a step only continues from the given nodes.
  enum class Begin : bool { kNo, kEverywhere };

  Stepper(const Nfa& nfa, Begin begin);

  // Computes in `to` the position after `from` and `symbol`. `dead` is indexed
  // by pattern: matches of a dead pattern do not begin here. Patterns that
  // match before or after the symbol are appended to `found`, some perhaps
  // twice. Their nodes remain in `to`.
  void Step(NfaPlaceView from, uint32_t symbol, const std::vector<bool>& dead,
            NfaPlace& to, std::vector<uint32_t>& found);

  // Appends to `found` the patterns that match if the text ends at `at`.
  void End(NfaPlaceView at, const std::vector<bool>& dead,
           std::vector<uint32_t>& found);

  int64_t work() const { return work_; }  // nodes visited so far

 private:
  void NewRound();
  void Look(NfaPlaceView at, Neighbour next, const std::vector<bool>& dead,
            std::vector<uint32_t>& found);
  void Visit(uint32_t node, unsigned holding, std::vector<uint32_t>& out,
             std::vector<uint32_t>& found);
  Neighbour Behind(const NfaPlace& place, uint32_t symbol) const;

  const Nfa& nfa_;
  Begin begin_;
  // All assertions (as bits) of the patterns that begin with an assertion other
  // than kTextBegin.
  unsigned begin_asserts_ = 0;
  std::vector<uint32_t> seen_;  // indexed by node: the round of its last visit
  uint32_t round_ = 0;
  std::vector<uint32_t> stack_;
  // KSet nodes that follow assertions that hold here.
  std::vector<uint32_t> here_;
  int64_t work_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_STEPPER_H_
