// Matches names by RE2. Unless a filter is used (kFiltered), there is one
// RE2::Set for each path separator (`/` or `.`), with all patterns that have
// this separator. A set reads the bytes of a name once and returns the patterns
// that match, in no particular order.
//
// RE2::Set can fail in two ways. Compile() may fail. Match() may run out of
// memory. It then returns false, as if no pattern matched, and only its
// ErrorInfo shows the failure. In both cases the patterns are matched one by
// one.
//
// RE2::Set is slow if nearly every name needs states that have not been built.
// The filter of pattern_filter.h is for lists of patterns with which this
// happens.
#include "match/re2_finder.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <mutex>
#include <optional>
#include <system_error>
#include <vector>

#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr int64_t kSetBytes = int64_t{256} << 20;

}  // namespace

struct Re2Finder::Groups {
  // The patterns that have the same path separator, such as `/` or `.`.
  class Group {
   public:
    Group(char separator, Method method)
        : separator_(separator), method_(method) {}

    char separator() const { return separator_; }
    void Add(uint32_t number, std::shared_ptr<const RE2> pattern) {
      numbers_.push_back(number);
      patterns_.push_back(std::move(pattern));
    }
    void Compile();
    void Find(re2::StringPiece text, Scratch& scratch,
              std::vector<uint32_t>& out) const;

   private:
    char separator_;
    Method method_;
    // The set; null if it is not used or was not compiled.
    std::unique_ptr<RE2::Set> set_;
    // The filter; nullopt unless the method is kFiltered.
    std::optional<PatternFilter> filter_;
    // numbers_[i] is the index of patterns_[i] in the constructor's `patterns`.
    std::vector<uint32_t> numbers_;
    std::vector<std::shared_ptr<const RE2>> patterns_;
  };

  std::vector<Group> all;
  std::once_flag compiled;
};

void Re2Finder::Groups::Group::Compile() {
  if (method_ == Method::kFiltered) {
    filter_.emplace(patterns_);
    return;
  }
  RE2::Options options = patterns_[0]->options();
  options.set_max_mem(kSetBytes);
  set_ = std::make_unique<RE2::Set>(options, RE2::UNANCHORED);
  const bool added = std::all_of(
      patterns_.begin(), patterns_.end(),
      [&](const auto& re) { return set_->Add(re->pattern(), nullptr) >= 0; });
  if (!added || !set_->Compile()) set_.reset();
}

void Re2Finder::Groups::Group::Find(re2::StringPiece text, Scratch& scratch,
                                    std::vector<uint32_t>& out) const {
  if (filter_) {
    scratch.filtered.clear();
    filter_->Find({text.data(), text.size()}, scratch.filter, scratch.filtered);
    for (uint32_t index : scratch.filtered) out.push_back(numbers_[index]);
    return;
  }
  if (set_ != nullptr) {
    RE2::Set::ErrorInfo error{RE2::Set::kNoError};
    scratch.hits.clear();
    if (set_->Match(text, &scratch.hits, &error)) {
      for (int hit : scratch.hits) out.push_back(numbers_[AsIndex(hit)]);
      return;
    }
    if (error.kind == RE2::Set::kNoError) return;
  }
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (RE2::PartialMatch(text, *patterns_[i])) out.push_back(numbers_[i]);
  }
}

std::string_view Convert(std::string_view name, char separator, char wanted,
                         std::string& scratch) {
  if (separator == 0 || wanted == 0 || separator == wanted) return name;
  scratch.assign(name);
  std::replace(scratch.begin(), scratch.end(), separator, wanted);
  return scratch;
}

Re2Finder::~Re2Finder() = default;
Re2Finder::Re2Finder(Re2Finder&&) noexcept = default;
Re2Finder& Re2Finder::operator=(Re2Finder&&) noexcept = default;

Re2Finder::Re2Finder(std::span<const CompiledPattern> patterns,
                     std::span<const uint32_t> numbers, Method method)
    : groups_(std::make_unique<Groups>()) {
  std::vector<Groups::Group>& all = groups_->all;
  for (uint32_t number : numbers) {
    const CompiledPattern& pattern = patterns[number];
    auto group =
        std::find_if(all.begin(), all.end(), [&](const Groups::Group& g) {
          return g.separator() == pattern.separator;
        });
    if (group == all.end()) {
      group = all.insert(all.end(), Groups::Group(pattern.separator, method));
    }
    group->Add(number, pattern.re);
  }
}

void Re2Finder::Find(std::string_view name, char separator, Scratch& scratch,
                     std::vector<uint32_t>& out) const {
  std::call_once(groups_->compiled, [this] {
    for (Groups::Group& group : groups_->all) group.Compile();
  });
  for (const Groups::Group& group : groups_->all) {
    const std::string_view text =
        Convert(name, separator, group.separator(), scratch.text);
    // `text` may be a view into scratch.text, which Group::Find() does not
    // change.
    group.Find({text.data(), text.size()}, scratch, out);
  }
}

// Explains why RE2 refuses a pattern, and suggests how to rewrite it. RE2
// itself reports only the error and the text where the error occurs. If RE2
// does not know the syntax of a group, the pattern is searched for features
// that RE2 lacks and that Python's `re` or other engines have. If RE2 does not
// know an escape, the pattern is searched for back-references. The finding is
// placed at the feature:
//
//   `a(?=/b)`  ->  look-ahead is not part of RE2 at position 2 (`(?=`),
//                  help: `a(?=/b)` becomes `a/b`
//
// Other errors are reported with RE2's own message, some with help.

namespace {

struct Lacking {
  std::string_view text;
  std::string_view reason;
  std::string_view help;
};

constexpr std::string_view kNamedGroup = "(?P<";

// The features that Python's `re` or other engines have and RE2 lacks. A
// feature comes before any feature that is its prefix: `(?<=` before `(?<`.
constexpr std::array kLacking = {
    Lacking{"(?<=", "look-behind is not part of RE2",
            "write the text before as part of the pattern: `(?<=a/)b` becomes "
            "`a/b`"},
    Lacking{"(?<!", "negative look-behind is not part of RE2",
            "put a rule for the excluded names above this one: the first "
            "match wins"},
    Lacking{"(?=", "look-ahead is not part of RE2",
            "write the text after as part of the pattern: `a(?=/b)` becomes "
            "`a/b`"},
    Lacking{"(?!", "negative look-ahead is not part of RE2",
            "put a rule for the excluded names above this one: the first "
            "match wins"},
    Lacking{"(?>", "atomic groups are not part of RE2",
            "RE2 never backtracks: write `(?:...)`"},
    Lacking{"(?P=", "back-references are not part of RE2",
            "spell the alternatives out, one rule each"},
    Lacking{kNamedGroup, "the group's name is not usable",
            "a name is one or more letters, digits or `_`, closed by `>`"},
    Lacking{"(?<", "this spelling of a named group is not part of RE2",
            "write `(?P<name>...)`"},
    Lacking{"(?#", "comments inside a pattern are not part of RE2",
            "put the comment behind a `#` of the YAML file"},
    Lacking{"(?(", "conditional groups are not part of RE2",
            "spell the alternatives out, one rule each"},
};

// Returns the position of the first group of the pattern that begins with
// `text`, such as `(?=`; npos if there is no such group.
size_t FindGroup(std::string_view pattern, std::string_view text) {
  for (size_t i = 0; i < pattern.size(); i = AtomEnd(pattern, i)) {
    if (pattern.substr(i).starts_with(text)) return i;
  }
  return std::string_view::npos;
}

// Returns the position of the first back-reference, which is an escaped digit
// other than 0; npos if the pattern has no back-reference.
size_t FindBackReference(std::string_view pattern) {
  for (size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] != '\\') continue;
    if (pattern[i + 1] >= '1' && pattern[i + 1] <= '9') return i;
    ++i;
  }
  return std::string_view::npos;
}

std::string_view EscapeHelp(char letter) {
  switch (letter) {
    case 'Z':
      return "write `\\z` or `$` for the end of the text";
    case 'h':
      return "write `[ \\t]`";
    case 'K':
      return "leave it out: a match is found anywhere in the name";
    default:
      return "double the backslash for a literal one, or leave it out";
  }
}

Place Inside(const Place& place, std::string_view pattern, size_t begin,
             size_t end) {
  // If the YAML file escapes characters of the pattern, offsets in the file
  // differ from offsets in the pattern. The place of the finding is then the
  // whole pattern.
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

// Returns the numbers in a repetition such as `{2,5}`. A number that an int
// cannot represent becomes INT_MAX.
std::vector<int> NumbersOf(std::string_view repetition) {
  std::vector<int> numbers;
  for (size_t at = 0; at < repetition.size();) {
    int number = 0;
    const auto [end, error] = std::from_chars(
        repetition.data() + at, repetition.data() + repetition.size(), number);
    if (error == std::errc::invalid_argument) {
      ++at;
      continue;
    }
    numbers.push_back(error == std::errc() ? number
                                           : std::numeric_limits<int>::max());
    at = static_cast<size_t>(end - repetition.data());
  }
  return numbers;
}

constexpr int kMostRepeats = 1000;

// Returns whether the numbers of a repetition are invalid, as in `{1001}`. RE2
// reports the same error for `(.{1000}){1000}`, where each repetition is valid
// and only the number of copies, 1,000,000, is too large.
bool IsBadRepetition(std::string_view argument) {
  const std::vector<int> numbers = NumbersOf(argument);
  const bool too_many =
      std::any_of(numbers.begin(), numbers.end(),
                  [](int number) { return number > kMostRepeats; });
  return too_many || !std::is_sorted(numbers.begin(), numbers.end());
}

std::string RepetitionHelp(std::string_view argument) {
  const std::vector<int> numbers = NumbersOf(argument);
  if (numbers.size() == 2 && numbers[1] < numbers[0] &&
      numbers[0] <= kMostRepeats) {
    return "write the smaller number first: `{" + std::to_string(numbers[1]) +
           "," + std::to_string(numbers[0]) + "}`";
  }
  return "RE2 repeats at most 1000 times, nested counts multiplied: "
         "write `+` or `*`";
}

}  // namespace

PatternFault ExplainFault(std::string_view pattern, std::string_view error,
                          std::string_view argument) {
  PatternFault fault;
  fault.end = pattern.size();
  const bool is_name =
      error.find("invalid named capture") != std::string_view::npos;
  if (is_name ||
      error.find("invalid perl operator") != std::string_view::npos) {
    for (const Lacking& lacking : kLacking) {
      // `argument` is the beginning of the group that RE2 refuses, such as
      // `(?=` or `(?P<1a>`. A feature is skipped unless its text begins with
      // `argument`, or `argument` begins with its text.
      if (!argument.starts_with(lacking.text) &&
          !lacking.text.starts_with(argument)) {
        continue;
      }
      if (is_name != (lacking.text == kNamedGroup)) continue;
      const size_t at = FindGroup(
          pattern, is_name && !argument.empty() ? argument : lacking.text);
      if (at == std::string_view::npos) continue;
      fault.reason = lacking.reason;
      fault.help = lacking.help;
      fault.begin = at;
      fault.end = at + lacking.text.size();
      return fault;
    }
  }
  if (error.find("invalid escape") != std::string_view::npos) {
    const size_t at = FindBackReference(pattern);
    const bool about_digit = argument.size() >= 2 && argument[0] == '\\' &&
                             argument[1] >= '1' && argument[1] <= '9';
    if (at != std::string_view::npos && about_digit) {
      fault.reason = "back-references are not part of RE2";
      fault.help = "spell the alternatives out, one rule each";
      fault.begin = at;
      fault.end = at + 2;
      return fault;
    }
  }
  fault.reason = std::string(error);
  if (!argument.empty()) {
    const size_t at = pattern.find(argument);
    if (at != std::string_view::npos) {
      fault.begin = at;
      fault.end = at + argument.size();
    }
    if (error.find("invalid escape") != std::string_view::npos &&
        argument.size() >= 2) {
      fault.help = EscapeHelp(argument[1]);
    }
  }
  if (error.find("repetition size") != std::string_view::npos) {
    fault.help = RepetitionHelp(argument);
  } else if (error.find("no argument for repetition") !=
             std::string_view::npos) {
    fault.help = "put something before it, or escape it: `\\*`";
  } else if (error.find("missing )") != std::string_view::npos) {
    fault.help = "close the group, or escape the parenthesis: `\\(`";
  } else if (error.find("unexpected )") != std::string_view::npos) {
    fault.help = "open the group, or escape the parenthesis: `\\)`";
  } else if (error.find("missing ]") != std::string_view::npos) {
    fault.help = "close the class, or escape the bracket: `\\[`";
  }
  return fault;
}

bool CheckPattern(const re2::RE2& re, const Pattern& pattern,
                  Findings& findings) {
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
  constexpr size_t kShown = 200;
  std::string message =
      "pattern " +
      (pattern.text.size() <= kShown ? "`" + std::string(pattern.text) + "`"
                                     : ShortQuote(pattern.text)) +
      " is not usable: " + fault.reason;
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

namespace {

// Searches for `text` from offset `at` on. Returns the offset after the text,
// or the size of the pattern if the text is not found.
size_t After(std::string_view pattern, std::string_view text, size_t at) {
  const size_t found = pattern.find(text, at);
  return found == pattern.npos ? pattern.size() : found + text.size();
}

size_t EscapeEnd(std::string_view pattern, size_t at) {
  if (pattern.substr(at, 2) == "\\Q") return After(pattern, "\\E", at + 2);
  // The braces of `\x{600}` and `\p{Greek}` are part of the escape, not a
  // repetition.
  const bool braces =
      pattern.substr(at + 2).starts_with('{') &&
      std::string_view("xpP").find(pattern[at + 1]) != std::string_view::npos;
  return braces ? After(pattern, "}", at + 2) : at + 2;
}

// Returns the offset after the class that begins at `at`. A `]` directly after
// `[` or `[^` is literal.
size_t ClassEnd(std::string_view pattern, size_t at) {
  ++at;
  if (pattern.substr(at).starts_with('^')) ++at;
  if (pattern.substr(at).starts_with(']')) ++at;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern.substr(at, 2) == "[:") {
      at = After(pattern, ":]", at + 2);
    } else {
      at += pattern[at] == '\\' ? 2 : 1;
    }
  }
  return at + 1;
}

}  // namespace

size_t AtomEnd(std::string_view pattern, size_t at) {
  size_t end = at + 1;
  if (pattern[at] == '\\' && end < pattern.size()) end = EscapeEnd(pattern, at);
  if (pattern[at] == '[') end = ClassEnd(pattern, at);
  return std::min(end, pattern.size());
}

}  // namespace shardc
