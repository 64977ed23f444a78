// RE2 has no class of two Unicode groups and no assertion about the characters
// around a position, other than its own `\b`. Classes are therefore replaced in
// the text of a pattern, and a pattern with `\b` or `\B` is matched by the
// automaton for one pattern, step by step and without a table of states. Names
// beyond ASCII are rare, so neither is built before such a name needs it.
#include "match/unicode_pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "match/automaton/automaton.h"
#include "match/automaton/classes.h"
#include "match/automaton/nfa.h"
#include "match/re2_finder.h"
#include "source/utf8.h"

namespace shardc {
namespace {

// The bytes of memory for one expression with classes of Unicode, of which one
// can take a hundred times the memory of a class of ASCII characters.
constexpr int64_t kUnicodeBytes = int64_t{128} << 20;

// A class as the text between the brackets of one of RE2's classes.
struct ClassText {
  char letter = 0;  // The letter of the class: `d`, `s` or `w`.
  std::string_view text;
};
constexpr std::array kClassTexts = {
    ClassText{'d', R"(\p{Nd})"},
    ClassText{'s', R"(\t\n\v\f\r\x1c-\x1f \x{85}\pZ)"},
    // The `_` comes first: a `-` that follows the class stays literal.
    ClassText{'w', R"(_\pL\pN)"},
};

std::string_view TextOfClass(char letter) {
  const auto* const found =
      std::find_if(kClassTexts.begin(), kClassTexts.end(),
                   [&](const ClassText& one) { return one.letter == letter; });
  return found == kClassTexts.end() ? std::string_view() : found->text;
}

std::span<const CodeRange> RangesOfClass(char letter) {
  if (letter == 'd') return DigitRanges();
  return letter == 's' ? SpaceRanges() : WordRanges();
}

constexpr char kCaseBit = 0x20;

// Returns the letter of the class that is written at `at`, such as `w` for both
// `\w` and `\W`, or 0 if no class is.
char ClassAt(std::string_view pattern, size_t at) {
  if (pattern[at] != '\\' || at + 1 >= pattern.size()) return 0;
  const char letter = static_cast<char>(pattern[at + 1] | kCaseBit);
  return IsLetter(pattern[at + 1]) && !TextOfClass(letter).empty() ? letter : 0;
}

bool IsNegated(std::string_view pattern, size_t at) {
  return (pattern[at + 1] & kCaseBit) == 0;
}

// Returns the characters that are not in the class, for use between brackets,
// where RE2 cannot negate several groups.
std::string RangesOutside(char letter) {
  const std::span<const CodeRange> ranges = RangesOfClass(letter);
  std::string out;
  for (const CodeRange& range :
       Complement(CharSet(ranges.begin(), ranges.end()))) {
    std::array<char, 40> text{};
    const int length =
        std::snprintf(text.data(), text.size(), "\\x{%X}-\\x{%X}",
                      unsigned{range.low}, unsigned{range.high});
    out.append(text.data(), static_cast<size_t>(length));
  }
  return out;
}

// Appends a class between brackets, which is the text `pattern`.
void AppendBrackets(std::string_view pattern, std::string& out) {
  for (size_t at = 0; at < pattern.size();) {
    const char letter = ClassAt(pattern, at);
    if (letter != 0) {
      out += IsNegated(pattern, at) ? RangesOutside(letter)
                                    : std::string(TextOfClass(letter));
      at += 2;
    } else {
      const size_t length = pattern[at] == '\\' ? 2 : 1;
      out += pattern.substr(at, length);
      at += length;
    }
  }
}

bool HasWordAssertion(std::string_view pattern) {
  for (size_t at = 0; at < pattern.size(); at = AtomEnd(pattern, at)) {
    const std::string_view atom = pattern.substr(at, 2);
    if (atom == "\\b" || atom == "\\B") return true;
  }
  return false;
}

}  // namespace

std::string WithPythonClasses(std::string_view pattern) {
  std::string out;
  for (size_t at = 0; at < pattern.size();) {
    const size_t end = AtomEnd(pattern, at);
    const char letter = ClassAt(pattern, at);
    if (pattern[at] == '[') {
      AppendBrackets(pattern.substr(at, end - at), out);
    } else if (letter != 0) {
      // Python does not ignore the case of a class. RE2 does, and adds a
      // combining mark (U+0345) to the letters for that reason.
      out += "(?-i:[";
      if (IsNegated(pattern, at)) out += '^';
      out += TextOfClass(letter);
      out += "])";
    } else {
      out += pattern.substr(at, end - at);
    }
    at = end;
  }
  return out;
}

struct UnicodePattern::State {
  explicit State(const RE2& one) : plain(one) {}

  void CompileClasses();
  void CompileEdges();

  const RE2& plain;
  bool has_classes = false;
  bool has_edges = false;
  std::once_flag classes_once;
  std::once_flag edges_once;
  std::unique_ptr<const RE2> classes;  // Null if it does not compile.
  // The automaton; nullopt if it does not support the pattern.
  std::optional<Nfa> nfa;
};

void UnicodePattern::State::CompileClasses() {
  if (!has_classes) return;
  RE2::Options options = plain.options();
  options.set_max_mem(kUnicodeBytes);
  auto re =
      std::make_unique<const RE2>(WithPythonClasses(plain.pattern()), options);
  if (re->ok()) classes = std::move(re);
}

void UnicodePattern::State::CompileEdges() {
  const NfaPattern pattern{plain.pattern(), 0};
  nfa = Nfa::Build({&pattern, 1}, 0, Prefixes::kOwn);
  if (nfa && !nfa->inside[0]) nfa.reset();
}

UnicodePattern::UnicodePattern(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
UnicodePattern::~UnicodePattern() = default;

std::shared_ptr<const UnicodePattern> UnicodePattern::Of(const RE2& plain) {
  const bool has_edges = HasWordAssertion(plain.pattern());
  const bool has_classes =
      WithPythonClasses(plain.pattern()) != plain.pattern();
  if (!has_edges && !has_classes) return nullptr;
  auto state = std::make_unique<State>(plain);
  state->has_classes = has_classes;
  state->has_edges = has_edges;
  return std::shared_ptr<const UnicodePattern>(
      new UnicodePattern(std::move(state)));
}

bool UnicodePattern::IsNeededFor(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || byte == '\v' || (byte >= 0x1C && byte <= 0x1F);
  });
}

const RE2& UnicodePattern::Expression() const {
  std::call_once(state_->classes_once, [this] { state_->CompileClasses(); });
  return state_->classes != nullptr ? *state_->classes : state_->plain;
}

namespace {

// Returns whether the only pattern of `nfa` matches `text`; nullopt if the text
// is not UTF-8.
std::optional<bool> Simulate(const Nfa& nfa, std::string_view text) {
  if (!nfa.everywhere.empty()) return true;
  Stepper stepper(nfa, Stepper::Begin::kEverywhere);
  const std::vector<bool> none_dead(nfa.patterns() + 1);
  NfaPlace here;
  NfaPlace next;
  std::vector<uint32_t> found;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = DecodeUtf8(text, at);
    if (point.length == 0) return std::nullopt;
    stepper.Step({here.nodes, here.before}, nfa.alphabet.SymbolOf(point.value),
                 none_dead, next, found);
    if (!found.empty()) return true;
    std::swap(here, next);
    at += point.length;
  }
  stepper.End({here.nodes, here.before}, none_dead, found);
  return !found.empty();
}

}  // namespace

bool UnicodePattern::Found(std::string_view text) const {
  if (state_->has_edges) {
    std::call_once(state_->edges_once, [this] { state_->CompileEdges(); });
    if (state_->nfa) {
      if (const auto found = Simulate(*state_->nfa, text)) return *found;
    }
  }
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()),
                           Expression());
}

}  // namespace shardc
