// Checks and compiles the patterns of a list one by one. RE2 limits the memory
// of each single pattern. The memory that all patterns of a list use together
// is limited here. name_scan.cc matches names against all patterns at once.
#include "match/match.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "match/name_scan.h"
#include "match/pattern_check.h"
#include "match/re2_finder.h"
#include "source/wording.h"

namespace shardc {
namespace {

// The limits on patterns: the bytes of memory for one expression (8 MiB is
// RE2's default), the RE2 instructions of all patterns together (an ordinary
// pattern has about 100), and the number of patterns.
constexpr int64_t kPatternBytes = int64_t{8} << 20;
constexpr int64_t kTotalInstructions = 2'000'000;
constexpr size_t kMaxPatterns = 100'000;
// The largest length of a pattern in bytes. It is limited because RE2's compile
// time is quadratic in the length if parts are optional.
constexpr size_t kMaxPatternBytes = 32'768;

RE2::Options PatternOptions() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternBytes);
  return options;
}

// Returns whether the pattern may have a `|` that is outside all groups.
bool MayBeAlternatives(std::string_view pattern) {
  if (pattern.find('|') == pattern.npos) return false;
  // In a character class, parentheses are literal, so counting them is not
  // enough.
  if (pattern.find('[') != pattern.npos) return true;
  int depth = 0;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] == '|' && depth == 0) return true;
    if (pattern[at] == '(') ++depth;
    if (pattern[at] == ')') --depth;
    if (pattern[at] == '\\') ++at;
  }
  return false;
}

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

// Returns a literal text with which every match begins. Stops before the first
// character that is not literal, such as `(`. The text may be empty.
//   mlp\.experts\.(\d+)  ->  mlp.experts.     ab*(c)  ->  a     (a)b  ->  none
std::string LiteralBegin(std::string_view pattern) {
  std::string out;
  if (MayBeAlternatives(pattern)) return out;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const bool escaped = pattern[at] == '\\' && at + 1 < pattern.size();
    const char c = pattern[escaped ? at + 1 : at];
    const bool plain = escaped ? c == '.' || c == '/' || c == '-'
                               : IsWordCharacter(c) || c == '/' || c == '-';
    if (!plain) {
      const bool repeats = !escaped && std::string_view("*+?{").find(c) !=
                                           std::string_view::npos;
      if (repeats && !out.empty()) out.pop_back();
      break;
    }
    out += c;
    if (escaped) ++at;
  }
  return out;
}

}  // namespace

std::vector<int64_t> Matches::Counts(size_t patterns) const {
  std::vector<int64_t> out(patterns), names(begin.size());
  for (const uint32_t number : set) ++names[number];
  for (size_t number = 0; number + 1 < begin.size(); ++number) {
    for (uint32_t at = begin[number]; at < begin[number + 1]; ++at) {
      out[rules[at]] += names[number];
    }
  }
  return out;
}

struct Matcher::State {
  std::vector<CompiledPattern> patterns;
  std::optional<Re2Finder> all;
};

Matcher::Matcher(std::unique_ptr<State> state) : state_(std::move(state)) {}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;

std::optional<Matcher> Matcher::Compile(std::span<const Pattern> patterns,
                                        Findings& findings) {
  auto state = std::make_unique<State>();
  if (patterns.size() > kMaxPatterns) {
    findings.Add(code::kLimit, patterns[kMaxPatterns].place,
                 CountText(static_cast<int64_t>(patterns.size())) +
                     " rules are more than any real rule set has",
                 "the limit is " + CountText(kMaxPatterns));
    return std::nullopt;
  }
  const size_t before = findings.errors();
  int64_t instructions = 0;
  for (const Pattern& pattern : patterns) {
    if (pattern.text.size() > kMaxPatternBytes) {
      findings.Add(code::kRegexLimit, pattern.place,
                   "pattern " + ShortQuote(pattern.text) + " is " +
                       CountText(static_cast<int64_t>(pattern.text.size())) +
                       " bytes long",
                   "the limit is " +
                       CountText(static_cast<int64_t>(kMaxPatternBytes)) +
                       ": give the parts rules of their own");
      return std::nullopt;
    }
    auto re = std::make_shared<RE2>(
        re2::StringPiece(pattern.text.data(), pattern.text.size()),
        PatternOptions());
    if (CheckPattern(*re, pattern, findings)) {
      instructions += re->ProgramSize();
      if (instructions > kTotalInstructions) {
        findings.Add(code::kRegexLimit, pattern.place,
                     "the patterns up to here take " + CountText(instructions) +
                         " automaton instructions together",
                     "the limit is " + CountText(kTotalInstructions) +
                         ": write fewer repetitions of large classes");
        return std::nullopt;
      }
    }
    if (findings.errors() - before >= Findings::kErrorLimit) break;
    state->patterns.push_back({std::move(re), pattern.separator});
  }
  if (findings.errors() > before) return std::nullopt;
  std::vector<uint32_t> numbers(patterns.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  state->all.emplace(state->patterns, numbers);
  return Matcher(std::move(state));
}

size_t Matcher::size() const { return state_->patterns.size(); }

std::string_view Matcher::text(size_t index) const {
  return state_->patterns[index].re->pattern();
}

char Matcher::separator(size_t index) const {
  return state_->patterns[index].separator;
}

Matches Matcher::Match(Texts names, char separator,
                       const MatchOptions& options) const {
  return ScanNames(state_->patterns, *state_->all, names, separator, options);
}

std::optional<std::pair<size_t, size_t>> Matcher::Find(size_t index,
                                                       std::string_view name,
                                                       char separator) const {
  std::string scratch;
  const std::string_view text =
      Convert(name, separator, state_->patterns[index].separator, scratch);
  re2::StringPiece match;
  if (!state_->patterns[index].re->Match(
          re2::StringPiece(text.data(), text.size()), 0, text.size(),
          RE2::UNANCHORED, &match, 1)) {
    return std::nullopt;
  }
  const size_t begin = static_cast<size_t>(match.data() - text.data());
  return std::pair(begin, begin + match.size());
}

std::optional<std::string> Matcher::Rewrite(size_t index, std::string_view name,
                                            char separator,
                                            std::string_view rewrite) const {
  const RE2& re = *state_->patterns[index].re;
  const char wanted = state_->patterns[index].separator;
  std::string scratch;
  const std::string_view text = Convert(name, separator, wanted, scratch);
  constexpr int kGroups = 10;
  std::array<re2::StringPiece, kGroups> groups;
  const int count = std::min(kGroups, re.NumberOfCapturingGroups() + 1);
  if (!re.Match(re2::StringPiece(text.data(), text.size()), 0, text.size(),
                RE2::UNANCHORED, groups.data(), count)) {
    return std::nullopt;
  }
  const bool converted = separator != 0 && separator != wanted;
  std::string out;
  for (size_t i = 0; i < rewrite.size(); ++i) {
    const bool escaped = rewrite[i] == '\\' && i + 1 < rewrite.size();
    const char next = rewrite[escaped ? ++i : i];
    if (escaped && next >= '0' && next <= '9') {
      const int group = next - '0';
      if (group >= count) return std::nullopt;
      const auto& piece = groups[static_cast<size_t>(group)];
      // This group took no part in the match, so it adds nothing.
      if (piece.data() == nullptr) continue;
      // The group is copied from `name` and not from `text`. For a pattern that
      // is written with dots, the name layers.0/w becomes the text layers.0.w.
      // Which of these dots was a separator can be read only from the name.
      const auto begin = static_cast<size_t>(piece.data() - text.data());
      out.append(name.substr(begin, piece.size()));
    } else {
      out += converted && next == wanted ? separator : next;
    }
  }
  return out;
}

struct Regex::State {
  explicit State(std::string_view text)
      : re(re2::StringPiece(text.data(), text.size()), PatternOptions()),
        begin(LiteralBegin(text)) {}
  RE2 re;
  std::string begin;  // The text with which every match begins.
};

Regex::Regex(std::unique_ptr<State> state) : state_(std::move(state)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Regex> Regex::Compile(const Pattern& pattern,
                                    Findings& findings) {
  auto state = std::make_unique<State>(pattern.text);
  if (!CheckPattern(state->re, pattern, findings)) return std::nullopt;
  return Regex(std::move(state));
}

bool Regex::Found(std::string_view text) const {
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()),
                           state_->re);
}

std::optional<std::string_view> Regex::Group1(std::string_view text) const {
  if (groups() < 1) return std::nullopt;
  std::array<re2::StringPiece, 2> found;
  const auto matches = [&](size_t at, RE2::Anchor anchor) {
    return state_->re.Match(re2::StringPiece(text.data(), text.size()), at,
                            text.size(), anchor, found.data(), 2);
  };
  const std::string_view begin = state_->begin;
  bool any = begin.empty() && matches(0, RE2::UNANCHORED);
  // Every match begins with the text `begin`, so only the positions of this
  // text are tried. That is faster than RE2's own search, which reads the text
  // up to three times to find the position of a group.
  for (size_t at = begin.empty() ? text.npos : text.find(begin);
       !any && at != text.npos; at = text.find(begin, at + 1)) {
    any = matches(at, RE2::ANCHOR_START);
  }
  if (!any) return std::nullopt;
  return std::string_view(found[1].data(), found[1].size());
}

int Regex::groups() const { return state_->re.NumberOfCapturingGroups(); }

}  // namespace shardc
