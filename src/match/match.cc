// Ordered patterns against many names.
//
// One RE2::Set per separator holds all patterns written for it. A set scan
// reports every pattern found in the name in one pass over its bytes, in no
// order; sorting the few that hit gives the first match and, for free, what
// it shadows. `layers/\d+/attn` and `.*` over `model/layers/0/attn/kernel`
// report {0, 1}: rule 0 wins and shadows rule 1.
//
// Two traps of RE2::Set, both closed here: with too little memory Match()
// says "nothing matched" (ErrorInfo tells it apart, and then patterns are
// tried one by one), and the memory limit is per expression, so a list of
// many large ones is budgeted as a whole. tests/match compares the set with
// the one-by-one loop on random patterns and names.
#include "match/match.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <thread>

#include "match/pattern_check.h"
#include "source/wording.h"

namespace shardc {
namespace {

// 8 MiB is RE2's own default for one expression. The total allows a few
// thousand ordinary patterns (about 100 instructions each).
constexpr int64_t kPatternBytes = int64_t{8} << 20;
constexpr int64_t kSetBytes = int64_t{256} << 20;
constexpr int64_t kTotalInstructions = 2'000'000;
constexpr size_t kMaxPatterns = 100'000;
// One name at a time costs too little to pay for a thread.
constexpr size_t kNamesPerThread = 4096;

RE2::Options PatternOptions() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternBytes);
  return options;
}

Place Inside(const Place& place, std::string_view pattern, size_t begin,
             size_t end) {
  // Escapes make the written text longer than the pattern; then the whole
  // text is the best that can be pointed at.
  if (!place.HasPosition() || place.source == nullptr) return place;
  const std::string_view written = place.source->text();
  if (place.end <= written.size() && place.begin < place.end) {
    const std::string_view text =
        written.substr(place.begin, place.end - place.begin);
    const size_t at = text.find(pattern);
    if (at != std::string_view::npos) {
      return {place.source, place.begin + at + begin, place.begin + at + end};
    }
  }
  return place;
}

// RE2 names `{1001}` and the `{1000}` of `(.{1000}){1000}` alike: the first
// is no repetition at all, the second is one of many that are too many.
bool IsBadRepetition(std::string_view argument) {
  std::vector<int> numbers;
  for (size_t at = 0; at < argument.size();) {
    int number = 0;
    const auto [end, error] = std::from_chars(
        argument.data() + at, argument.data() + argument.size(), number);
    if (error == std::errc::result_out_of_range) return true;
    if (error != std::errc()) {
      ++at;
      continue;
    }
    numbers.push_back(number);
    at = static_cast<size_t>(end - argument.data());
  }
  const bool too_many = std::any_of(numbers.begin(), numbers.end(),
                                    [](int number) { return number > 1000; });
  return too_many || !std::is_sorted(numbers.begin(), numbers.end());
}

bool Check(const RE2& re, const Pattern& pattern, Findings& findings) {
  if (re.ok()) {
    if (pattern.text.find('\0') != std::string_view::npos) {
      findings.Add(code::kRegexSemantic, pattern.place,
                   "the pattern holds a NUL byte, which no name has",
                   "remove it");
      return false;
    }
    return true;
  }
  const bool too_large = re.error_code() == RE2::ErrorPatternTooLarge ||
                         (re.error_code() == RE2::ErrorRepeatSize &&
                          !IsBadRepetition(re.error_arg()));
  const PatternFault fault =
      ExplainFault(pattern.text, re.error(), re.error_arg());
  std::string message = "pattern `" + std::string(pattern.text) +
                        "` is not usable: " + fault.reason;
  if (fault.begin > 0 || fault.end < pattern.text.size()) {
    message +=
        " at position " + std::to_string(fault.begin + 1) + " (`" +
        std::string(pattern.text.substr(fault.begin, fault.end - fault.begin)) +
        "`)";
  }
  std::string help = fault.help;
  if (re.error_code() == RE2::ErrorPatternTooLarge) {
    help = "write it with fewer or smaller repetitions";
  }
  findings.Add(too_large ? code::kRegexLimit : code::kRegexSyntax,
               Inside(pattern.place, pattern.text, fault.begin, fault.end),
               std::move(message), std::move(help));
  return false;
}

// The name as a pattern for `wanted` sees it.
std::string_view Convert(std::string_view name, char separator, char wanted,
                         std::string& scratch) {
  if (separator == 0 || wanted == 0 || separator == wanted) return name;
  scratch.assign(name);
  std::replace(scratch.begin(), scratch.end(), separator, wanted);
  return scratch;
}

}  // namespace

struct Matcher::State {
  struct Group {
    char separator;
    std::unique_ptr<RE2::Set> set;
    std::vector<uint32_t> rules;  // pattern index by index in the set
  };
  std::vector<std::unique_ptr<RE2>> patterns;
  std::vector<char> separators;
  std::vector<Group> groups;

  void MatchOne(std::string_view name, char separator, std::string& scratch,
                std::vector<int>& hits, std::vector<uint32_t>& out) const;
};

void Matcher::State::MatchOne(std::string_view name, char separator,
                              std::string& scratch, std::vector<int>& hits,
                              std::vector<uint32_t>& out) const {
  out.clear();
  for (const Group& group : groups) {
    const std::string_view text =
        Convert(name, separator, group.separator, scratch);
    RE2::Set::ErrorInfo error{RE2::Set::kNoError};
    hits.clear();
    const bool found = group.set->Match(
        re2::StringPiece(text.data(), text.size()), &hits, &error);
    if (!found && error.kind != RE2::Set::kNoError) {
      // Out of automaton memory: the slow way gives the same answer.
      for (uint32_t rule : group.rules) {
        if (RE2::PartialMatch(re2::StringPiece(text.data(), text.size()),
                              *patterns[rule])) {
          out.push_back(rule);
        }
      }
      continue;
    }
    for (int hit : hits) out.push_back(group.rules[static_cast<size_t>(hit)]);
  }
  std::sort(out.begin(), out.end());
}

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
  for (size_t i = 0; i < patterns.size(); ++i) {
    const Pattern& pattern = patterns[i];
    auto re = std::make_unique<RE2>(
        re2::StringPiece(pattern.text.data(), pattern.text.size()),
        PatternOptions());
    if (Check(*re, pattern, findings)) {
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
    state->patterns.push_back(std::move(re));
    state->separators.push_back(pattern.separator);
  }
  if (findings.errors() > before) return std::nullopt;

  for (size_t i = 0; i < patterns.size(); ++i) {
    auto group = std::find_if(
        state->groups.begin(), state->groups.end(),
        [&](const auto& g) { return g.separator == patterns[i].separator; });
    if (group == state->groups.end()) {
      RE2::Options options = PatternOptions();
      options.set_max_mem(kSetBytes);
      state->groups.push_back(
          {patterns[i].separator,
           std::make_unique<RE2::Set>(options, RE2::UNANCHORED),
           {}});
      group = std::prev(state->groups.end());
    }
    std::string error;
    if (group->set->Add(
            re2::StringPiece(patterns[i].text.data(), patterns[i].text.size()),
            &error) < 0) {
      findings.Add(code::kRegexSyntax, patterns[i].place,
                   "pattern `" + std::string(patterns[i].text) +
                       "` is not usable: " + error);
      return std::nullopt;
    }
    group->rules.push_back(static_cast<uint32_t>(i));
  }
  for (auto& group : state->groups) {
    if (!group.set->Compile()) {
      findings.Add(code::kRegexLimit, patterns[group.rules[0]].place,
                   "the patterns are too large to compile together",
                   "write fewer repetitions of large classes");
      return std::nullopt;
    }
  }
  return Matcher(std::move(state));
}

Matches Matcher::Match(std::span<const std::string_view> names, char separator,
                       int threads) const {
  struct Part {
    std::vector<uint32_t> counts;
    std::vector<uint32_t> all;
  };
  const size_t wanted = std::max<size_t>(
      1, std::min<size_t>(static_cast<size_t>(std::max(threads, 1)),
                          names.size() / kNamesPerThread));
  const size_t per_part =
      (names.size() + wanted - 1) / std::max<size_t>(wanted, 1);
  std::vector<Part> parts(wanted);
  auto work = [&](size_t p) {
    Part& part = parts[p];
    std::string scratch;
    std::vector<int> hits;
    std::vector<uint32_t> found;
    const size_t end = std::min(names.size(), (p + 1) * per_part);
    for (size_t i = p * per_part; i < end; ++i) {
      state_->MatchOne(names[i], separator, scratch, hits, found);
      part.counts.push_back(static_cast<uint32_t>(found.size()));
      part.all.insert(part.all.end(), found.begin(), found.end());
    }
  };
  std::vector<std::thread> others;
  for (size_t p = 1; p < wanted; ++p) others.emplace_back(work, p);
  work(0);
  for (std::thread& thread : others) thread.join();

  Matches matches;
  matches.first.reserve(names.size());
  matches.begin.reserve(names.size() + 1);
  matches.begin.push_back(0);
  for (const Part& part : parts) {
    size_t at = 0;
    for (uint32_t count : part.counts) {
      matches.first.push_back(count == 0 ? Matches::kNone
                                         : static_cast<int32_t>(part.all[at]));
      at += count;
      matches.begin.push_back(matches.begin.back() + count);
    }
    matches.all.insert(matches.all.end(), part.all.begin(), part.all.end());
  }
  return matches;
}

std::optional<std::pair<size_t, size_t>> Matcher::Find(size_t index,
                                                       std::string_view name,
                                                       char separator) const {
  std::string scratch;
  const std::string_view text =
      Convert(name, separator, state_->separators[index], scratch);
  re2::StringPiece match;
  if (!state_->patterns[index]->Match(
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
  const RE2& re = *state_->patterns[index];
  const char wanted = state_->separators[index];
  std::string scratch;
  const std::string_view text = Convert(name, separator, wanted, scratch);
  constexpr int kGroups = 10;
  std::array<re2::StringPiece, kGroups> groups;
  const int count = std::min(kGroups, re.NumberOfCapturingGroups() + 1);
  if (!re.Match(re2::StringPiece(text.data(), text.size()), 0, text.size(),
                RE2::UNANCHORED, groups.data(), count)) {
    return std::nullopt;
  }
  std::string out;
  for (size_t i = 0; i < rewrite.size(); ++i) {
    if (rewrite[i] != '\\' || i + 1 == rewrite.size()) {
      out += rewrite[i];
      continue;
    }
    const char next = rewrite[++i];
    if (next >= '0' && next <= '9') {
      const int group = next - '0';
      if (group >= count) return std::nullopt;
      const auto& piece = groups[static_cast<size_t>(group)];
      out.append(piece.data(), piece.size());
    } else {
      out += next;
    }
  }
  if (separator != 0 && separator != wanted) {
    std::replace(out.begin(), out.end(), wanted, separator);
  }
  return out;
}

struct Regex::State {
  explicit State(std::string_view text)
      : re(re2::StringPiece(text.data(), text.size()), PatternOptions()) {}
  RE2 re;
};

Regex::Regex(std::unique_ptr<State> state) : state_(std::move(state)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Regex> Regex::Compile(const Pattern& pattern,
                                    Findings& findings) {
  auto state = std::make_unique<State>(pattern.text);
  if (!Check(state->re, pattern, findings)) return std::nullopt;
  return Regex(std::move(state));
}

bool Regex::Found(std::string_view text) const {
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()),
                           state_->re);
}

std::optional<std::string> Regex::Group1(std::string_view text) const {
  std::array<re2::StringPiece, 2> groups;
  if (state_->re.NumberOfCapturingGroups() < 1 ||
      !state_->re.Match(re2::StringPiece(text.data(), text.size()), 0,
                        text.size(), RE2::UNANCHORED, groups.data(), 2)) {
    return std::nullopt;
  }
  return std::string(groups[1].data(), groups[1].size());
}

int Regex::groups() const { return state_->re.NumberOfCapturingGroups(); }

}  // namespace shardc
