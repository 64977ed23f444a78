// Directory: match/automaton. Compiles patterns to automata and matches names
// with them.
// Its files include headers of these directories: source.
//
// This file: matching names against all patterns by one automaton.
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

// Finds the patterns of a list that match a name. Each thread needs its own
// Automaton. The prefix that a name shares with the previous name is not read
// again, so callers should pass names with the same prefix one after the other.
class Automaton {
 public:
  // `nfa` and `sets` must outlive this object.
  Automaton(const Nfa& nfa, RuleSets& sets, const AutomatonLimits& limits = {});

  // Returns the set of patterns that match `name`, as the number of this set
  // (RuleSets::Number). The bytes of `name` must stay valid until the next
  // call. Returns nullopt if the caller must match the name by RE2, for one of
  // three reasons: the bytes that decide the result are not UTF-8, they are not
  // ASCII and a pattern has `\B`, or a limit was reached.
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
  const bool ascii_only_;
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
