// Matches names against all patterns, one name after the other. Names with a
// common prefix pass through the same states. The states of the last name are
// therefore kept, and matching begins at the first byte in which the next name
// differs:
//
//   model/layers/10/attn/q_proj/kernel
//   model/layers/10/attn/k_proj/kernel   only `k_proj/kernel` is read
//
// Several bytes can be matched at once. States are numbered in the order in
// which they are built, so a name that builds several states in succession
// gives them consecutive numbers. For each state n, the table stores the
// "expected" byte, which leads from state n to state n + 1. In the example, the
// first name built 12 states for the 12 bytes of `_proj/kernel`. If no pattern
// distinguishes `q` from `k`, the second name reaches the state before these
// 12. Its next eight bytes are then compared at once with the expected bytes of
// eight states. Any other step is one lookup in the table.
//
// The result is always equal to that of RE2 with the classes of Python
// (match/unicode_pattern.h). Names and patterns for which this is not certain
// are matched by RE2. tests/match/differential_test.cc compares the results.
#include "match/automaton/automaton.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "source/size.h"

namespace shardc {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

uint64_t LoadEightBytes(const void* from) {
  uint64_t word = 0;
  std::memcpy(&word, from, kWord);
  return word;
}

// Returns how many bytes of `word`, in memory order, are zero before the first
// nonzero byte.
size_t ZeroBytes(uint64_t word) {
  if constexpr (std::endian::native == std::endian::little) {
    return static_cast<size_t>(std::countr_zero(word)) / 8;
  } else {
    return static_cast<size_t>(std::countl_zero(word)) / 8;
  }
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t size = std::min(a.size(), b.size());
  size_t at = 0;
  for (; at + kWord <= size; at += kWord) {
    const uint64_t differ =
        LoadEightBytes(a.data() + at) ^ LoadEightBytes(b.data() + at);
    if (differ != 0) return at + ZeroBytes(differ);
  }
  while (at < size && a[at] == b[at]) ++at;
  return at;
}

// Returns how many bytes of `name` from offset `at` on are equal to the
// expected bytes, up to the first difference. An expected byte of kNone (0x80)
// means that no byte is expected, so it differs from every byte of a name, even
// from the byte 0x80.
size_t AsExpected(std::string_view name, size_t at, const uint8_t* expected) {
  constexpr uint64_t kNones = 0x8080808080808080u;
  static_assert(StateTable::kNone == 0x80 && StateTable::kPadding >= kWord);
  size_t run = 0;
  for (; at + run + kWord <= name.size(); run += kWord) {
    const uint64_t wanted = LoadEightBytes(expected + run);
    const uint64_t differ =
        (LoadEightBytes(name.data() + at + run) ^ wanted) | (wanted & kNones);
    if (differ != 0) return run + ZeroBytes(differ);
  }
  while (at + run < name.size() && expected[run] < StateTable::kNone &&
         static_cast<unsigned char>(name[at + run]) == expected[run]) {
    ++run;
  }
  return run;
}

bool IsContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

Automaton::Automaton(const Nfa& nfa, RuleSets& sets,
                     const AutomatonLimits& limits)
    : nfa_(nfa), limits_(limits), table_(nfa, sets, limits) {
  Begin();
}

// Resets this object to the state before the first byte of a name, so that the
// next name shares no prefix with an earlier name.
void Automaton::Begin() {
  const State start = table_.Start();
  settled_ = start < 0;
  state_ = settled_ ? -start : start;
  stretches_.assign(1, {0, state_});
  last_ = {};
  read_ = 0;
  forgotten_ = table_.forgotten();
}

// Returns the number of bytes at the beginning of `name` whose states are known
// from the last name.
size_t Automaton::Shared(std::string_view name) const {
  size_t at = std::min(CommonPrefix(last_, name), read_);
  // Moves back to the start of a code point, because states exist only between
  // code points.
  const auto inside = [&](std::string_view text) {
    return at < text.size() && IsContinuation(text[at]);
  };
  while (at > 0 && (inside(name) || inside(last_))) --at;
  return at;
}

// Returns the state after the code point at offset `at`. Scan() calls this
// function for code points of several bytes, and for steps that are not in the
// table yet. Stores the number of bytes of the code point in `length`. Returns
// kNotMade if RE2 must match the name.
StateTable::State Automaton::StepOver(State from, std::string_view name,
                                      size_t at, size_t& length) {
  const CodePoint point = DecodeUtf8(name, at);
  length = point.length;
  if (length == 0) return StateTable::kNotMade;
  const uint32_t symbol = nfa_.alphabet.SymbolOf(point.value);
  const State known = table_.Known(from, symbol);
  if (known != StateTable::kNotMade) return known;
  const State made = table_.Make(from, symbol, static_cast<uint8_t>(name[at]),
                                 limits_.work + limits_.work_per_byte * bytes_);
  given_up_ = made == StateTable::kNotMade;
  return made;
}

// Reads `name` from offset `at` to its end, or until no further byte can change
// the result. The bytes before `at` must be equal to those of the last name.
// Returns false if RE2 must match the name.
bool Automaton::Scan(std::string_view name, size_t at) {
  while (stretches_.back().at > at) stretches_.pop_back();
  const Stretch& shared = stretches_.back();
  State state = shared.state + static_cast<State>(at - shared.at);
  bool known = true;
  settled_ = false;
  while (at < name.size()) {
    const auto byte = static_cast<uint8_t>(name[at]);
    const uint8_t* const expected = table_.expected() + state;
    if (*expected == byte && byte < StateTable::kNone) {
      const size_t run = AsExpected(name, at, expected);
      at += run;
      state += static_cast<State>(run);
      continue;
    }
    State next = table_.KnownByte(state, byte);
    size_t length = 1;
    if (next <= 0) {
      if (next == StateTable::kNotMade) {
        next = StepOver(state, name, at, length);
      }
      known = next != StateTable::kNotMade;
      if (!known) break;
      settled_ = next < 0;
      if (settled_) next = -next;
    }
    state = next;
    at += length;
    stretches_.push_back({at, state});
    if (settled_) break;
  }
  read_ = at;
  state_ = state;
  return known;
}

std::optional<uint32_t> Automaton::Find(std::string_view name) {
  bytes_ += static_cast<int64_t>(name.size());
  if (given_up_) return std::nullopt;
  if (forgotten_ != table_.forgotten()) Begin();
  const size_t at = Shared(name);
  const bool same = settled_ && at == read_;
  last_ = name;
  if (!same && !Scan(name, at)) return std::nullopt;
  return table_.AtEnd(state_);
}

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

// Computes the NFA's step over one symbol, from one set of active nodes to the
// next. An assertion such as `\b` can be evaluated only when the characters on
// both sides are known. Therefore kAssert nodes that are reached remain in the
// set, and the step over the next symbol first evaluates them. For example, the
// pattern `a\b` in the text `a/`:
//
//   {}  --a-->  {assert \b}  --/-->  \b is true between `a` and `/`: found

namespace {

// Visit() gets this value as `holding` if the next character is not known yet.
// Visit() then keeps assertion nodes other than kTextBegin in the set, and the
// next step evaluates them.
constexpr unsigned kLater = UINT32_MAX;
constexpr unsigned kWordAssertions = kWordEdge | kNoWordEdge;

}  // namespace

Stepper::Stepper(const Nfa& nfa, Begin begin)
    : nfa_(nfa), begin_(begin), seen_(nfa.nodes.size()) {
  if (begin == Begin::kNo) return;
  for (uint32_t node : nfa.begin_asserted) {
    begin_asserts_ |= nfa.asserts[nfa.nodes[node].pattern];
  }
}

void Stepper::NewRound() {
  if (++round_ == 0) {
    std::fill(seen_.begin(), seen_.end(), 0);
    round_ = 1;
  }
}

// Follows the edges that read no character, beginning at `start`. Adds to `out`
// the kSet nodes that are reached and, with kLater, also the kAssert nodes.
// Adds to `found` the patterns that match. `holding` has the bits of the
// assertions that are true at this position, or is kLater.
void Stepper::Visit(uint32_t start, unsigned holding,
                    std::vector<uint32_t>& out, std::vector<uint32_t>& found) {
  stack_.push_back(start);
  while (!stack_.empty()) {
    const uint32_t at = stack_.back();
    stack_.pop_back();
    if (seen_[at] == round_) continue;
    seen_[at] = round_;
    ++work_;
    const Nfa::Node& node = nfa_.nodes[at];
    switch (node.kind) {
      case NodeKind::kSet:
        out.push_back(at);
        break;
      case NodeKind::kFork:
        // `other` is visited first, so that `out` is often sorted already: in
        // most forks, `other` has the lower number.
        stack_.push_back(node.next);
        stack_.push_back(node.other);
        break;
      case NodeKind::kAssert:
        if (holding != kLater) {
          if ((holding & node.assertion) != 0) stack_.push_back(node.next);
        } else if (node.assertion != kTextBegin) {
          out.push_back(at);
        }
        break;
      case NodeKind::kFound:
        found.push_back(node.pattern);
        break;
    }
  }
}

// Evaluates the assertions at a position. `at` is the NFA's state there, and
// `next` the kind of the character after it. Sets here_ to the kSet nodes that
// are reached through true assertions. Adds the patterns that match at this
// position to `found`.
void Stepper::Look(NfaPlaceView at, Neighbour next,
                   const std::vector<bool>& dead,
                   std::vector<uint32_t>& found) {
  NewRound();
  here_.clear();
  const unsigned holding = HoldingBetween(at.before, next);
  const auto look = [&](uint32_t node) {
    if (nfa_.nodes[node].kind == NodeKind::kAssert) {
      Visit(node, holding, here_, found);
    }
  };
  const auto look_if_live = [&](uint32_t node) {
    if (!dead[nfa_.nodes[node].pattern]) look(node);
  };
  std::for_each(at.nodes.begin(), at.nodes.end(), look);
  if (begin_ == Begin::kNo) return;
  const auto& asserted = nfa_.begin_asserted;
  std::for_each(asserted.begin(), asserted.end(), look_if_live);
  if (at.before != Neighbour::kEdge) return;
  const auto& anchored = nfa_.begin_anchored;
  std::for_each(anchored.begin(), anchored.end(), look_if_live);
}

void Stepper::Step(NfaPlaceView from, uint32_t symbol,
                   const std::vector<bool>& dead, NfaPlace& to,
                   std::vector<uint32_t>& found) {
  const Alphabet& alphabet = nfa_.alphabet;
  Look(from, alphabet.KindOf(symbol), dead, found);
  NewRound();
  to.nodes.clear();
  const auto move = [&](uint32_t at) {
    const Nfa::Node& node = nfa_.nodes[at];
    ++work_;
    if (node.kind == NodeKind::kSet && alphabet.Holds(node.set, symbol)) {
      Visit(node.next, kLater, to.nodes, found);
    }
  };
  std::for_each(from.nodes.begin(), from.nodes.end(), move);
  std::for_each(here_.begin(), here_.end(), move);
  if (begin_ == Begin::kEverywhere) {
    for (uint32_t at : nfa_.after_first[symbol]) {
      if (!dead[nfa_.nodes[at].pattern]) Visit(at, kLater, to.nodes, found);
    }
  }
  if (!std::is_sorted(to.nodes.begin(), to.nodes.end())) {
    std::sort(to.nodes.begin(), to.nodes.end());
  }
  to.before = Behind(to, symbol);
}

void Stepper::End(NfaPlaceView at, const std::vector<bool>& dead,
                  std::vector<uint32_t>& found) {
  Look(at, Neighbour::kEdge, dead, found);
}

// Returns the kind of the character `symbol`, or kOther if no assertion of the
// active nodes depends on this kind. NFA states that differ only in an
// irrelevant kind are then equal, so the automaton has fewer states.
Neighbour Stepper::Behind(const NfaPlace& place, uint32_t symbol) const {
  unsigned asserted = begin_asserts_;
  for (uint32_t at : place.nodes) {
    const Nfa::Node& node = nfa_.nodes[at];
    if (node.kind == NodeKind::kAssert) asserted |= nfa_.asserts[node.pattern];
  }
  const Neighbour kind = nfa_.alphabet.KindOf(symbol);
  const bool asked =
      (kind == Neighbour::kWord && (asserted & kWordAssertions) != 0) ||
      (kind == Neighbour::kNewline && (asserted & kLineBegin) != 0);
  return asked ? kind : Neighbour::kOther;
}

}  // namespace shardc
