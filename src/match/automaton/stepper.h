// The step from a set of nodes to the next, of which both the scan of names
// and the proofs about all names are made.
#ifndef SHARDC_MATCH_AUTOMATON_STEPPER_H_
#define SHARDC_MATCH_AUTOMATON_STEPPER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "match/automaton/nfa.h"

namespace shardc {

// A place in a text: the nodes reached, kSet and kAssert only and ascending,
// and what stands before it.
struct NfaPlace {
  std::vector<uint32_t> nodes;
  Beside before = Beside::kEdge;
};
struct NfaPlaceView {
  std::span<const uint32_t> nodes;
  Beside before = Beside::kEdge;
};

// Keeps scratch memory, so one per thread.
class Stepper {
 public:
  // Whether patterns may begin at every place, or only `nodes` go on.
  enum class Begin : bool { kNo, kEverywhere };

  Stepper(const Nfa& nfa, Begin begin);

  // From `from` over `symbol`. Patterns that are `dead` (by number) do not
  // begin. Those found, at `from` before the symbol, too, are added to `found`,
  // perhaps twice; their nodes are not left out of `to`.
  void Step(NfaPlaceView from, uint32_t symbol, const std::vector<bool>& dead,
            NfaPlace& to, std::vector<uint32_t>& found);

  // Patterns found when the text ends at `at`.
  void End(NfaPlaceView at, const std::vector<bool>& dead,
           std::vector<uint32_t>& found);

  int64_t work() const { return work_; }  // nodes looked at, ever

 private:
  void NewRound();
  void Look(NfaPlaceView at, Beside next, const std::vector<bool>& dead,
            std::vector<uint32_t>& found);
  void Visit(uint32_t node, unsigned holding, std::vector<uint32_t>& out,
             std::vector<uint32_t>& found);
  Beside Behind(const NfaPlace& place, uint32_t symbol) const;

  const Nfa& nfa_;
  Begin begin_;
  unsigned begin_asks_ = 0;     // assertion bits of patterns begun behind one
  std::vector<uint32_t> seen_;  // by node: round of the last visit
  uint32_t round_ = 0;
  std::vector<uint32_t> stack_;
  std::vector<uint32_t> here_;  // set nodes reached behind assertions
  int64_t work_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_STEPPER_H_
