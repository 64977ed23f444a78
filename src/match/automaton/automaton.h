// Room: match/automaton. Patterns to automata of our own, and names through
// them. Knows source; has no opinion on rules, separators' origin or RE2.
//
// Here: the scan of names by one automaton over all patterns.
#ifndef SHARDC_MATCH_AUTOMATON_AUTOMATON_H_
#define SHARDC_MATCH_AUTOMATON_AUTOMATON_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "match/automaton/nfa.h"
#include "match/automaton/rule_sets.h"
#include "match/automaton/state_table.h"

namespace shardc {

// For one thread. A scan begins behind what a name shares with the one
// before, so names are best given in an order that keeps prefixes together.
class Automaton {
 public:
  // `nfa` and `sets` outlive it.
  Automaton(const Nfa& nfa, RuleSets& sets, const AutomatonLimits& limits = {});

  // The number in `sets` of the patterns found in `name`, which must live
  // until the next call. Nothing where RE2 has to say: the name is not UTF-8
  // or the limits are reached.
  std::optional<uint32_t> Find(std::string_view name);

  size_t states() const { return table_.size(); }  // held now
  bool given_up() const { return given_up_; }

 private:
  using State = StateTable::State;

  // From byte `at` of the last name on, the states are `state`, `state` + 1
  // and so on, up to the next stretch.
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
  const bool ascii_only_;
  StateTable table_;

  std::string_view last_;
  std::vector<Stretch> stretches_;
  size_t read_ = 0;       // so far they hold
  State state_ = 0;       // there
  bool settled_ = false;  // and nothing behind matters
  uint32_t forgotten_ = 0;

  int64_t bytes_ = 0;  // of names
  bool given_up_ = false;
};

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_AUTOMATON_H_
