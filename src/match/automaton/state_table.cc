// Builds the states of the deterministic automaton by the subset construction.
// A state is a set of nodes of the nondeterministic automaton, together with
// the set of patterns that have already matched. A pattern that has matched
// needs no nodes in the state. For example, pattern 0 is `attn/kernel$` and
// pattern 1 is `attn`. Each line has the text that was read, and what its state
// contains:
//
//   a            nodes that read `t`
//   attn         a node that reads `/`; pattern 1 has matched
//   attn/kernel  the assertion `$`; pattern 1 has matched, and pattern 0
//                matches if the text ends here
//
// The state after a symbol is built when a name first needs it, and is stored
// in a table. The names of a model need few of the possible states. States are
// numbered in the order in which they are built, so the states of the new part
// of a name have consecutive numbers.
//
// A pattern such as `(a|b)*a(a|b){20}` has a million states, and a name may
// need a new one for each byte. Therefore states are dropped if they take too
// much memory, and the caller limits the cost of building them.
#include "match/automaton/state_table.h"

#include <algorithm>

#include "source/index.h"

namespace shardc {
namespace {

constexpr size_t kFewestSlots = 64;

uint64_t HashOf(NfaPlaceView place, uint32_t found) {
  uint64_t hash = found * 4 + static_cast<uint64_t>(place.before);
  for (uint32_t node : place.nodes) {
    hash = (hash ^ node) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

StateTable::StateTable(const Nfa& nfa, RuleSets& sets,
                       const AutomatonLimits& limits)
    : nfa_(nfa),
      sets_(sets),
      limit_bytes_(limits.bytes),
      stepper_(nfa, Stepper::Begin::kEverywhere),
      stride_(nfa.alphabet.symbols() + 1),
      dead_(nfa.patterns() + 1) {
  Forget();
  columns_.fill(nfa.alphabet.symbols());
  std::copy(nfa.alphabet.ascii().begin(), nfa.alphabet.ascii().end(),
            columns_.begin());
}

// Sets dead_ for the set `found`: the patterns in this set have already
// matched, so their nodes are skipped.
void StateTable::SetDead(uint32_t found) {
  if (found == dead_set_) return;
  if (dead_set_) {
    for (uint32_t rule : sets_.Of(*dead_set_)) dead_[rule] = false;
  }
  for (uint32_t rule : sets_.Of(found)) dead_[rule] = true;
  dead_set_ = found;
}

// Returns the number of the set that is the union of the set `before` and
// found_.
uint32_t StateTable::Merge(uint32_t before) {
  if (found_.empty()) return before;
  const auto rules = sets_.Of(before);
  found_.insert(found_.end(), rules.begin(), rules.end());
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  return sets_.Number(found_);
}

bool StateTable::IsSettled(const Entry& entry) {
  SetDead(entry.found);
  if (entry.size > 0) return false;
  // The state has no nodes. A further byte can still change the result if a
  // pattern that has not matched yet can begin at this position or later.
  const bool at_start = entry.before == Neighbour::kEdge;
  for (size_t p = 0; p < nfa_.patterns(); ++p) {
    const bool begins =
        nfa_.begins_anywhere[p] || (at_start && nfa_.begins_at_start[p]);
    if (begins && !dead_[p]) return false;
  }
  return true;
}

void StateTable::Forget() {
  cells_.assign(stride_, kNotMade);
  expected_.assign(1 + kPadding, kNone);
  states_.assign(1, Entry());
  nodes_.clear();
  slots_.assign(kFewestSlots, 0);
  start_ = kNotMade;
  ++forgotten_;
}

size_t StateTable::HeldBytes() const {
  return cells_.size() * sizeof(State) + states_.size() * sizeof(Entry) +
         (nodes_.size() + slots_.size()) * sizeof(uint32_t);
}

// Returns the index in slots_ of the state that is equal to `entry`, or of the
// empty slot in which to store it.
size_t StateTable::SlotOf(const Entry& entry) const {
  const size_t mask = slots_.size() - 1;
  const auto nodes = PlaceOf(entry).nodes;
  for (size_t at = entry.hash & mask;; at = (at + 1) & mask) {
    if (slots_[at] == 0) return at;
    const Entry& other = states_[slots_[at]];
    if (other.hash != entry.hash || other.found != entry.found ||
        other.before != entry.before) {
      continue;
    }
    const auto others = PlaceOf(other).nodes;
    if (std::equal(nodes.begin(), nodes.end(), others.begin(), others.end())) {
      return at;
    }
  }
}

void StateTable::Rehash() {
  slots_.assign(std::max(kFewestSlots, slots_.size() * 2), 0);
  const size_t mask = slots_.size() - 1;
  for (uint32_t number = 1; number < states_.size(); ++number) {
    size_t at = states_[number].hash & mask;
    while (slots_[at] != 0) at = (at + 1) & mask;
    slots_[at] = number;
  }
}

// Returns the state with the nodes in to_ and the matched patterns `found`.
// Stores the state if it is new.
StateTable::State StateTable::Put(uint32_t found) {
  if (HeldBytes() > limit_bytes_) Forget();
  if (states_.size() * 2 >= slots_.size()) Rehash();
  Entry entry;
  entry.begin = nodes_.size();
  entry.size = to_.nodes.size();
  entry.found = found;
  entry.before = to_.before;
  nodes_.insert(nodes_.end(), to_.nodes.begin(), to_.nodes.end());
  entry.hash = HashOf(PlaceOf(entry), found);
  const size_t slot = SlotOf(entry);
  if (slots_[slot] == 0) {
    entry.settled = IsSettled(entry);
    slots_[slot] = static_cast<uint32_t>(states_.size());
    states_.push_back(entry);
    // The new cells are 0, which is kNotMade.
    cells_.resize(states_.size() * stride_);
    expected_.push_back(kNone);
  } else {
    nodes_.resize(entry.begin);
  }
  const auto state = static_cast<State>(slots_[slot]);
  return states_[slots_[slot]].settled ? -state : state;
}

StateTable::State StateTable::Start() {
  if (start_ == kNotMade) {
    found_ = nfa_.everywhere;
    to_ = {};
    start_ = Put(Merge(sets_.Number({})));
  }
  return start_;
}

StateTable::State StateTable::Make(State from, uint32_t symbol, uint8_t byte,
                                   int64_t allowed) {
  if (stepper_.work() > allowed) return kNotMade;
  const uint32_t before = states_[AsIndex(from)].found;
  SetDead(before);
  found_.clear();
  stepper_.Step(PlaceOf(states_[AsIndex(from)]), symbol, dead_, to_, found_);
  const uint32_t found = Merge(before);
  if (found != before) {
    SetDead(found);
    std::erase_if(to_.nodes, [&](uint32_t node) {
      return dead_[nfa_.nodes[node].pattern];
    });
  }
  const uint32_t forgotten = forgotten_;
  const State to = Put(found);
  if (forgotten != forgotten_) return to;
  cells_[AsIndex(from) * stride_ + symbol] = to;
  if (to == from + 1 && byte < kNone) {
    expected_[AsIndex(from)] = byte;
  }
  return to;
}

uint32_t StateTable::AtEnd(State state) {
  Entry& entry = states_[AsIndex(state)];
  if (entry.at_end == kUnknown) {
    SetDead(entry.found);
    found_.clear();
    stepper_.End(PlaceOf(entry), dead_, found_);
    entry.at_end = static_cast<int32_t>(Merge(entry.found));
  }
  return static_cast<uint32_t>(entry.at_end);
}

}  // namespace shardc
