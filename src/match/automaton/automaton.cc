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
// The result is always equal to that of RE2. Names and patterns for which this
// is not certain are matched by RE2. tests/match/differential_test.cc compares
// the results.
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
    const uint64_t differ = Load(a.data() + at) ^ Load(b.data() + at);
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
      // If a pattern has `\B`, the automaton matches only ASCII names, because
      // RE2 also tests `\B` between the bytes of one code point.
      ascii_only_(nfa.Uses(kNoWordEdge)),
      table_(nfa, sets, limits) {
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
  if (length == 0 || (length > 1 && ascii_only_)) return StateTable::kNotMade;
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

}  // namespace shardc
