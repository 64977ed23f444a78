// The step from one set of nodes to the next, which both the matching of names
// and the proofs about all names use.
#ifndef SHARDC_MATCH_AUTOMATON_STEPPER_H_
#define SHARDC_MATCH_AUTOMATON_STEPPER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "match/automaton/nfa.h"

namespace shardc {

// A position in a text: the nodes reached (kSet and kAssert only, ascending),
// and the kind of character before it.
struct NfaPlace {
  std::vector<uint32_t> nodes;
  Neighbour before = Neighbour::kEdge;
};
struct NfaPlaceView {
  std::span<const uint32_t> nodes;
  Neighbour before = Neighbour::kEdge;
};

// Computes steps. It has scratch memory, so each thread needs one of its own.
class Stepper {
 public:
  // Whether patterns may begin at every position (kEverywhere), or a step only
  // continues from the given nodes (kNo).
  enum class Begin : bool { kNo, kEverywhere };

  Stepper(const Nfa& nfa, Begin begin);

  // Steps from `from` over `symbol` to `to`. Patterns that are `dead` (by
  // number) do not begin. Patterns that match before or after the symbol are
  // appended to `found`, some perhaps twice. Their nodes remain in `to`.
  void Step(NfaPlaceView from, uint32_t symbol, const std::vector<bool>& dead,
            NfaPlace& to, std::vector<uint32_t>& found);

  // Appends the patterns that match if the text ends at `at` to `found`.
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
  std::vector<uint32_t> here_;  // kSet nodes after assertions
  int64_t work_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_STEPPER_H_
