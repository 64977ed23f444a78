// Names that share a prefix share states, so the scan keeps the states along
// the last name and begins where the next one differs:
//
//   model/layers/10/attn/q_proj/kernel
//   model/layers/10/attn/k_proj/kernel   reads `k_proj/kernel` only
//
// Where a state expects the very byte that comes, the next state is the one
// numbered next, and eight such steps are one comparison: `_proj/kernel` of
// the first name has made the states 25 to 37, so from 25 on the second name
// is compared with the bytes that these states expect. Elsewhere a step is
// one look into the table.
//
// What RE2 would find is found, always: names and patterns for which that is
// in doubt are left to it. tests/match/differential_test.cc compares both.
#include "match/automaton/automaton.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace shardc {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

uint64_t Load(const void* from) {
  uint64_t word = 0;
  std::memcpy(&word, from, kWord);
  return word;
}

// Bytes before the first that is not zero.
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
    const uint64_t differ = Load(a.data() + at) ^ Load(b.data() + at);
    if (differ != 0) return at + ZeroBytes(differ);
  }
  while (at < size && a[at] == b[at]) ++at;
  return at;
}

// How many bytes from `at` on are as expected, where kNone never is.
size_t AsExpected(std::string_view name, size_t at, const uint8_t* expected) {
  constexpr uint64_t kNones = 0x8080808080808080u;
  static_assert(StateTable::kNone == 0x80 && StateTable::kPadding >= kWord);
  size_t run = 0;
  for (; at + run + kWord <= name.size(); run += kWord) {
    const uint64_t wanted = Load(expected + run);
    const uint64_t differ =
        (Load(name.data() + at + run) ^ wanted) | (wanted & kNones);
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
    : nfa_(nfa),
      limits_(limits),
      // RE2 looks for `\B` between the bytes of a code point, too.
      ascii_only_(nfa.Uses(kNoWordEdge)),
      table_(nfa, sets, limits) {
  Begin();
}

// As if the last name had been empty.
void Automaton::Begin() {
  const State start = table_.Start();
  settled_ = start < 0;
  state_ = settled_ ? -start : start;
  stretches_.assign(1, {0, state_});
  last_ = {};
  read_ = 0;
  forgotten_ = table_.forgotten();
}

// How many bytes of `name` the states of the last one stand for.
size_t Automaton::Shared(std::string_view name) const {
  size_t at = std::min(CommonPrefix(last_, name), read_);
  // Not into a code point: it has one state, before its first byte.
  const auto inside = [&](std::string_view text) {
    return at < text.size() && IsContinuation(text[at]);
  };
  while (at > 0 && (inside(name) || inside(last_))) --at;
  return at;
}

// Over the code point at `at`, where the byte alone does not tell. kNotMade
// where RE2 has to say.
StateTable::State Automaton::StepOver(State from, std::string_view name,
                                      size_t at, size_t& length) {
  const CodePoint point = DecodeUtf8(name, at);
  length = point.length;
  if (length == 0 || (length > 1 && ascii_only_)) return StateTable::kNotMade;
  const uint32_t symbol = nfa_.alphabet.SymbolOf(point.value);
  const State known = table_.Known(from, symbol);
  if (known != StateTable::kNotMade) return known;
  const State made = table_.Make(from, symbol, static_cast<uint8_t>(name[at]),
                                 limits_.work + limits_.work_per_byte * bytes_);
  given_up_ = made == StateTable::kNotMade;
  return made;
}

// From `at`, which the last name shares, to the end, or to where nothing
// matters any more.
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

}  // namespace shardc
