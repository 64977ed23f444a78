// Finds out whether the match of a pattern ends at the end of a word. RE2
// returns the first alternative that matches, which may end inside a word
// although another alternative would not. A match that ends inside a word is
// therefore repeated with `\b` (the boundary of a word) after the pattern:
//
//   kernel|kernel_scale in q/kernel_scale  ->  the match `kernel` ends inside a
//   word; with `\b` the match is `kernel_scale`, which does not
//
// The names of a group differ only in numbers, so only the first name is
// tested. If its match ends with a digit, all names of the group are tested.
#include "lint/analysis/pattern_ends.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "lint/analysis/dots.h"
#include "match/match.h"
#include "match/re2_finder.h"

namespace shardc {
namespace {

// Returns whether a match that ends at `end` ends inside a word of the name, as
// `kernel` does in `kernel_scale`.
bool EndsInsideWord(std::string_view name, size_t end) {
  return end > 0 && end < name.size() && IsWord(name[end - 1]) &&
         IsWord(name[end]);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::optional<Regex> RegexOf(const Rule& rule, const std::string& pattern) {
  Findings ignored;
  return Regex::Compile({pattern, rule.match_place, rule.separator}, ignored);
}

bool IsFound(const Facts& facts, const Rule& rule, const Regex& regex,
             std::string_view name) {
  std::string scratch;
  return regex.Found(Convert(name, facts.separator(), rule.separator, scratch));
}

// Returns whether the pattern ends with a class of all digits, as `layers.\d`
// does. An author who writes such a pattern means numbers of any length.
bool EndsWithAnyDigit(std::string_view pattern) {
  while (pattern.ends_with(')')) pattern.remove_suffix(1);
  return pattern.ends_with("\\d") || pattern.ends_with("[0-9]");
}

// Finds where the matches of one rule's pattern end.
class EndFinder {
 public:
  EndFinder(const Facts& facts, size_t rule)
      : facts_(facts), rule_(rule), any_digit_(EndsWithAnyDigit(Written())) {}

  // Adds the parameters of a group to `out`. Only the first name is searched if
  // its match does not end in a number: the matches in the other names of the
  // group then end in the same way.
  void Add(const ParameterGroup& group, PatternEnds& out) {
    const auto members = facts_.Members(group);
    const auto first = EndOf(members.front());
    if (!first.found) return;
    if (!first.in_number) {
      if (first.inside) {
        out.inside.push_back({&group, {members.begin(), members.end()}});
      } else {
        out.words.push_back(members.front());
      }
      return;
    }
    GroupPart inside{&group, {}};
    for (const uint32_t param : members) {
      const End end = EndOf(param);
      if (end.found) (end.inside ? inside.params : out.words).push_back(param);
    }
    if (!inside.params.empty()) out.inside.push_back(std::move(inside));
  }

 private:
  struct End {
    bool found = false, inside = false, in_number = false;
  };

  std::string_view Written() const { return facts_.rules()[rule_].match; }

  End EndOf(uint32_t param) {
    const std::string_view name = facts_.plan().names[param];
    const auto found =
        facts_.compiled().matcher->Find(rule_, name, facts_.separator());
    if (!found) return {};
    End out{.found = true, .inside = EndsInsideWord(name, found->second)};
    out.in_number = found->second > 0 && IsDigit(name[found->second - 1]);
    if (!out.inside) return out;
    if (out.in_number && any_digit_ && IsDigit(name[found->second])) {
      out.inside = false;
      return out;
    }
    const Rule& rule = facts_.rules()[rule_];
    if (!words_) words_ = RegexOf(rule, "(?:" + rule.match + ")\\b");
    out.inside = !words_ || !IsFound(facts_, rule, *words_, name);
    return out;
  }

  const Facts& facts_;
  size_t rule_;
  bool any_digit_;
  std::optional<Regex> words_;  // the pattern with `\b`; compiled when needed
};

}  // namespace

PatternEnds PatternEndsOf(const Facts& facts, size_t rule) {
  EndFinder finder(facts, rule);
  PatternEnds out;
  for (uint32_t index : facts.rule_facts()[rule].groups) {
    finder.Add(facts.groups()[index], out);
  }
  return out;
}

std::optional<std::string> EndedPattern(const Facts& facts, size_t rule) {
  const Rule& written = facts.rules()[rule];
  const PatternEnds ends = PatternEndsOf(facts, rule);
  for (const std::string_view end : {"$", "\\b"}) {
    const std::string pattern = WithEnd(written.match, end);
    const auto regex = RegexOf(written, pattern);
    if (regex &&
        std::all_of(ends.words.begin(), ends.words.end(), [&](uint32_t param) {
          return IsFound(facts, written, *regex, facts.plan().names[param]);
        })) {
      return pattern;
    }
  }
  return std::nullopt;
}

}  // namespace shardc
