// Checks and compiles the patterns of a list one by one. RE2 limits the memory
// of each single pattern. The memory that all patterns of a list use together
// is limited here. match/automaton matches names against all patterns at once.
// In names beyond ASCII, `\w`, `\d`, `\s` and `\b` mean what they mean in
// Python (unicode_pattern.h).
#include "match/match.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <span>

#include "match/automaton/automaton.h"
#include "match/automaton/nfa.h"
#include "match/re2_finder.h"
#include "match/unicode_pattern.h"
#include "source/process.h"
#include "source/text_order.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Matches many names by several threads. The names are divided into one run for
// each thread. A thread numbers the sets of matching patterns in the order in
// which it finds them. Afterwards the sets of all threads are renumbered in the
// order of the first name that has the set. The result therefore does not
// depend on the number of threads. In this example, each thread has three
// names. The lines show the number of each name's set and, in braces, the sets:
//
//   thread 0:  0 0 1   {0: attn;   1: attn, kernel}
//   thread 1:  0 1 1   {0: kernel; 1: attn}
//   together:  0 0 1 2 0 0
//
// RE2 matches a pattern that the automaton does not support, and all patterns
// for a name that the automaton cannot match. A thread stops using its
// automaton if nearly every name needs new and large states. RE2::Set would be
// slow for the same reason, so RE2 then matches the remaining names pattern by
// pattern, after a filter (re2_finder.h).
//
// The automaton is used because it was faster than RE2::Set in all
// measurements. The table has the milliseconds for building the automaton or
// the RE2::Set and matching one name of a model. With many names, the automaton
// takes between an eighth and a third of the time of RE2::Set.
//
//   rules      12    100   1,000
//   automaton  0.05  0.26  2.6
//   RE2::Set   0.07  0.8   6.9

// The smallest number of names for which a thread is started. Matching fewer
// names takes less time than starting a thread.
constexpr size_t kNamesPerThread = 4096;
// The bytes of memory for the states of all threads' automata together, and the
// smallest number of bytes for one thread.
constexpr size_t kStateBytes = size_t{64} << 20;
constexpr size_t kLeastStateBytes = size_t{4} << 20;

struct Tables {
  // The automaton; nullopt if RE2 matches all patterns.
  std::optional<Nfa> nfa;
  // A finder for the patterns that the automaton does not support.
  std::optional<Re2Finder> outside;
  // A finder for all patterns. It matches the names that remain when a worker
  // stops using the automaton.
  std::optional<Re2Finder> filtered;
};

Tables MakeTables(std::span<const CompiledPattern> patterns, char separator,
                  Engine engine) {
  Tables tables;
  if (engine == Engine::kRe2) return tables;
  std::vector<NfaPattern> texts;
  for (const CompiledPattern& pattern : patterns) {
    texts.push_back({pattern.re->pattern(), pattern.separator});
  }
  tables.nfa = Nfa::Build(texts, separator, Prefixes::kShared);
  if (!tables.nfa) return tables;
  std::vector<uint32_t> all(patterns.size());
  std::iota(all.begin(), all.end(), 0);
  tables.filtered.emplace(patterns, all, Re2Finder::Method::kFiltered);
  std::vector<uint32_t> outside;
  for (uint32_t p = 0; p < patterns.size(); ++p) {
    if (!tables.nfa->inside[p]) outside.push_back(p);
  }
  if (!outside.empty()) tables.outside.emplace(patterns, outside);
  return tables;
}

class Worker {
 public:
  Worker(const Tables& tables, const Re2Finder& all,
         const AutomatonLimits& limits)
      : tables_(tables), all_(all) {
    if (tables.nfa) automaton_.emplace(*tables.nfa, sets_, limits);
  }

  // Finds the set of patterns that match each name. Sets numbers[i] to the
  // number that sets() gives to the set of name i.
  void Scan(Texts names, char separator, std::span<uint32_t> numbers) {
    for (size_t i = 0; i < names.size(); ++i) {
      numbers[i] = NumberOf(names[i], separator);
    }
  }
  const RuleSets& sets() const { return sets_; }

 private:
  uint32_t NumberOf(std::string_view name, char separator) {
    std::optional<uint32_t> number;
    if (automaton_) number = automaton_->Find(name);
    if (number && !tables_.outside) return *number;
    found_.clear();
    if (number) {
      const auto known = sets_.Of(*number);
      found_.assign(known.begin(), known.end());
    }
    FinderFor(number.has_value()).Find(name, separator, scratch_, found_);
    std::sort(found_.begin(), found_.end());
    return sets_.Number(found_);
  }

  // Returns the finder for the patterns that still have to be matched: those
  // that the automaton does not support, or all patterns if the automaton did
  // not match the name.
  const Re2Finder& FinderFor(bool by_automaton) const {
    if (by_automaton) return *tables_.outside;
    const bool given_up = automaton_ && automaton_->given_up();
    return given_up ? *tables_.filtered : all_;
  }

  const Tables& tables_;
  const Re2Finder& all_;
  RuleSets sets_;
  std::optional<Automaton> automaton_;
  Re2Finder::Scratch scratch_;
  std::vector<uint32_t> found_;
};

// Replaces a worker's own set numbers in `numbers` by the numbers of the same
// sets in `sets`, which all workers share.
void Renumber(const RuleSets& own, std::span<uint32_t> numbers,
              RuleSets& sets) {
  constexpr uint32_t kNew = UINT32_MAX;
  std::vector<uint32_t> shared(own.size(), kNew);
  for (uint32_t& number : numbers) {
    if (shared[number] == kNew) {
      shared[number] = sets.Number(own.Of(number));
    }
    number = shared[number];
  }
}

// Returns the patterns that match each name. `all` must be a finder for all of
// `patterns`.
Matches ScanNames(std::span<const CompiledPattern> patterns,
                  const Re2Finder& all, Texts names, char separator,
                  const MatchOptions& options) {
  const Tables tables = MakeTables(patterns, separator, options.engine);
  const size_t count =
      std::clamp<size_t>(names.size() / kNamesPerThread, 1,
                         static_cast<size_t>(std::max(options.threads, 1)));
  const size_t run = (names.size() + count - 1) / count;
  AutomatonLimits limits;
  limits.bytes = std::max(kLeastStateBytes, kStateBytes / count);
  // A deque does not move its elements. Workers must not move, because they
  // hold pointers into themselves.
  std::deque<Worker> workers;
  for (size_t w = 0; w < count; ++w) {
    workers.emplace_back(tables, all, limits);
  }
  Matches matches;
  matches.set.resize(names.size());
  const auto run_of = [&](size_t w) {
    const size_t begin = std::min(names.size(), w * run);
    return std::pair(begin, std::min(run, names.size() - begin));
  };
  ParallelFor(static_cast<int64_t>(count), static_cast<int>(count),
              [&](int64_t task) {
                const auto w = static_cast<size_t>(task);
                const auto [begin, size] = run_of(w);
                workers[w].Scan(names.Part(begin, size), separator,
                                std::span(matches.set).subspan(begin, size));
              });

  RuleSets sets;
  for (size_t w = 0; w < count; ++w) {
    const auto [begin, size] = run_of(w);
    Renumber(workers[w].sets(), std::span(matches.set).subspan(begin, size),
             sets);
  }
  std::vector<int32_t> first(sets.size());
  matches.begin.push_back(0);
  for (uint32_t s = 0; s < sets.size(); ++s) {
    const auto rules = sets.Of(s);
    first[s] =
        rules.empty() ? Matches::kNone : static_cast<int32_t>(rules.front());
    matches.rules.insert(matches.rules.end(), rules.begin(), rules.end());
    matches.begin.push_back(static_cast<uint32_t>(matches.rules.size()));
  }
  matches.first.reserve(names.size());
  for (uint32_t set : matches.set) matches.first.push_back(first[set]);
  return matches;
}

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
                               : IsWordByte(c) || c == '/' || c == '-';
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
    auto unicode = re->ok() ? UnicodePattern::Of(*re) : nullptr;
    state->patterns.push_back(
        {std::move(re), pattern.separator, std::move(unicode)});
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
  const CompiledPattern& pattern = state_->patterns[index];
  std::string scratch;
  const std::string_view text =
      Convert(name, separator, pattern.separator, scratch);
  const UnicodePattern* const unicode = pattern.UnicodeFor(text);
  if (unicode != nullptr && !unicode->Found(text)) return std::nullopt;
  re2::StringPiece match;
  if (!pattern.For(text).Match(re2::StringPiece(text.data(), text.size()), 0,
                               text.size(), RE2::UNANCHORED, &match, 1)) {
    // RE2 does not find the ends of a match whose `\b` is next to a character
    // beyond ASCII.
    return unicode != nullptr ? std::optional(std::pair(size_t{0}, text.size()))
                              : std::nullopt;
  }
  const size_t begin = static_cast<size_t>(match.data() - text.data());
  return std::pair(begin, begin + match.size());
}

std::optional<std::string> Matcher::Rewrite(size_t index, std::string_view name,
                                            char separator,
                                            std::string_view rewrite) const {
  const char wanted = state_->patterns[index].separator;
  std::string scratch;
  const std::string_view text = Convert(name, separator, wanted, scratch);
  const RE2& re = state_->patterns[index].For(text);
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
    if (escaped && IsDigit(next)) {
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
        unicode(re.ok() ? UnicodePattern::Of(re) : nullptr),
        begin(LiteralBegin(text)) {}

  const UnicodePattern* UnicodeFor(std::string_view text) const {
    return unicode && UnicodePattern::IsNeededFor(text) ? unicode.get()
                                                        : nullptr;
  }

  RE2 re;
  // How Python reads the pattern in texts beyond ASCII; null if as RE2 does.
  std::shared_ptr<const UnicodePattern> unicode;
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
  if (const UnicodePattern* unicode = state_->UnicodeFor(text)) {
    return unicode->Found(text);
  }
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()),
                           state_->re);
}

std::optional<std::string_view> Regex::Group1(std::string_view text) const {
  if (groups() < 1) return std::nullopt;
  std::array<re2::StringPiece, 2> found;
  const UnicodePattern* const unicode = state_->UnicodeFor(text);
  const RE2& re = unicode != nullptr ? unicode->Expression() : state_->re;
  const auto matches = [&](size_t at, RE2::Anchor anchor) {
    return re.Match(re2::StringPiece(text.data(), text.size()), at, text.size(),
                    anchor, found.data(), 2);
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
