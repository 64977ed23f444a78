// A match that ends inside a word is found again with a pattern that ends at
// the boundary of a word, because RE2 returns the first alternative that
// matches:
//
//   kernel|kernel_scale in q/kernel_scale  ->  `kernel`, and with `\b` the word
#include "lint/analysis/pattern_ends.h"

#include <algorithm>
#include <string_view>

#include "lint/analysis/dots.h"
#include "match/match.h"
#include "match/re2_finder.h"

namespace shardc {
namespace {

// Returns whether a match that ends at `end` ends inside a word of the name, as
// `kernel` does in `kernel_scale`.
bool EndsInsideWord(const std::string& name, size_t end) {
  return end > 0 && end < name.size() && IsWord(name[end - 1]) &&
         IsWord(name[end]);
}

std::optional<Regex> RegexOf(const Rule& rule, const std::string& pattern) {
  Findings ignored;
  return Regex::Compile({pattern, rule.match_place, rule.separator}, ignored);
}

bool IsFound(const Facts& facts, const Rule& rule, const Regex& regex,
             const ParameterGroup& group) {
  std::string scratch;
  return regex.Found(Convert(facts.Example(group), facts.separator(),
                             rule.separator, scratch));
}

}  // namespace

PatternEnds PatternEndsOf(const Facts& facts, size_t rule) {
  const Rule& written = facts.rules()[rule];
  PatternEnds out;
  std::optional<Regex> words;
  for (uint32_t index : facts.rule_facts()[rule].groups) {
    const ParameterGroup& group = facts.groups()[index];
    const std::string& name = facts.Example(group);
    const auto found =
        facts.compiled().matcher->Find(rule, name, facts.separator());
    if (!found) continue;
    const bool inside = EndsInsideWord(name, found->second);
    if (inside && !words) {
      words = RegexOf(written, "(?:" + written.match + ")\\b");
    }
    const bool ends =
        !inside || (words && IsFound(facts, written, *words, group));
    (ends ? out.words : out.inside).push_back(&group);
  }
  return out;
}

std::optional<std::string> EndedPattern(const Facts& facts, size_t rule) {
  const Rule& written = facts.rules()[rule];
  const PatternEnds ends = PatternEndsOf(facts, rule);
  for (const std::string_view end : {"$", "\\b"}) {
    const std::string pattern = WithEnd(written.match, end);
    const auto regex = RegexOf(written, pattern);
    if (regex && std::all_of(ends.words.begin(), ends.words.end(),
                             [&](const ParameterGroup* group) {
                               return IsFound(facts, written, *regex, *group);
                             })) {
      return pattern;
    }
  }
  return std::nullopt;
}

}  // namespace shardc
