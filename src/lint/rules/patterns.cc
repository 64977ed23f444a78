// Lints about the text of patterns, which match more or fewer names than they
// seem to, or slowly.
//
//   `mlp.up`  ->  the dot also matches `mlp_up`
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/pattern_faults.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "match/re2_finder.h"
#include "match/sketch.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns a text such as "`layers.10.q` (10 of 12 parameters `layers.*.q`)", or
// the group's text if the part is the complete group.
std::string PartText(const Facts& facts, const GroupPart& part) {
  const int64_t count = part.group->count();
  const auto held = static_cast<int64_t>(part.params.size());
  if (held == count) return ParametersText(facts, *part.group);
  return Quoted(facts.plan().names[part.params.front()]) + " (" +
         std::to_string(held) + " of " + std::to_string(count) +
         " parameters " + Quoted(part.group->name) + ")";
}

}  // namespace

void CheckUnanchoredPattern(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    const std::string& pattern = facts.rules()[r].match;
    // In `a|b$`, the `$` belongs only to the last alternative, so the pattern
    // is checked.
    const bool ended =
        rule.sketch.end_anchor && pattern.find('|') == std::string::npos;
    if (ended || rule.sketch.catch_all || rule.builtin) continue;
    const PatternEnds ends = PatternEndsOf(facts, r);
    if (ends.words.empty() || ends.inside.empty()) continue;
    LintFinding finding = FindingAt(kUnanchoredPattern.code,
                                    facts.RulePlace(static_cast<int32_t>(r)));
    std::vector<std::string> texts;
    for (const GroupPart& part : ends.inside) {
      texts.push_back(PartText(facts, part));
      facts.AddNames(part.params, finding);
    }
    finding.message = "pattern " + Quoted(pattern) + " also matches " +
                      ListText(texts) + ", where the match ends inside a word";
    const auto mended = EndedPattern(facts, r);
    const bool word = mended && mended->ends_with("\\b");
    finding.help = mended
                       ? std::string("end it with ") +
                             (word ? "`\\b`" : "`$`") + ": " + Quoted(*mended)
                       : "write more of the names that it is for";
    sink.push_back(std::move(finding));
  }
}

void CheckUnescapedDot(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const Rule& rule = facts.rules()[r];
    if (rule.separator != '.' || facts.rule_facts()[r].builtin) continue;
    const auto escaped = EscapeDots(rule.match);
    if (!escaped) continue;
    LintFinding finding;
    Findings ignored;
    const auto regex =
        shardc::Regex::Compile({*escaped, Place{}, '.'}, ignored);
    std::string astray;
    for (uint32_t index : facts.rule_facts()[r].groups) {
      const ParameterGroup& group = facts.groups()[index];
      std::string name = facts.Example(group);
      for (char& c : name) {
        if (c == facts.separator()) c = '.';
      }
      if (!regex || regex->Found(name)) continue;
      if (astray.empty()) astray = facts.Example(group);
      facts.AddNames(facts.Members(group), finding);
    }
    finding.code = &kUnescapedDot.code;
    finding.level = astray.empty() ? Level::kNote : kUnescapedDot.code.level;
    finding.place = facts.RulePlace(static_cast<int32_t>(r));
    finding.message =
        "a dot in " + Quoted(rule.match) +
        " stands for any character, not for a dot" +
        (astray.empty() ? "" : ": it also matches " + Quoted(astray));
    finding.help = "write " + Quoted(*escaped);
    sink.push_back(std::move(finding));
  }
}

// Reports patterns with large repetition counts, such as `{30}`. An automaton
// has one copy of the repeated part for each repetition, so nested counts
// multiply. The counts are read from the pattern's text, with a stack of open
// groups:
//
//   `(a{20}b{3}){30}`  ->  600, reported     `a{20}(b){30}`  ->  30
namespace {

// A pattern with this many copies of a part is reported. With such patterns,
// the fast automaton of a rule set may become too large.
constexpr int64_t kManyCopies = 500;

struct Count {
  int64_t most = 1;
  size_t end = 0;  // the index after `}`
};

// Reads the count `{n}`, `{n,}` or `{n,m}` at `i`. Returns nullopt for other
// text.
std::optional<Count> ReadCount(std::string_view pattern, size_t i) {
  constexpr int64_t kLargest = 100000;  // above RE2's limit of 1,000
  Count out;
  int64_t count = 0;
  for (size_t j = i + 1; j < pattern.size(); ++j) {
    const char c = pattern[j];
    if (c == '}') {
      out.end = j + 1;
      return out;
    }
    if (c == ',') {
      count = 0;
      continue;
    }
    if (c < '0' || c > '9' || count > kLargest) return std::nullopt;
    count = count * 10 + (c - '0');
    out.most = std::max(out.most, count);
  }
  return std::nullopt;
}

// Returns the largest number of copies of one part in the pattern's automaton.
// It is the largest product of nested counts, such as 20 * 30 = 600 for
// `(a{20}b{3}){30}`, whose automaton has 600 copies of `a`.
int64_t Copies(std::string_view pattern) {
  // A stack with one number for the complete pattern, and one for each group
  // that is open at `i`. The number is the largest product of nested counts in
  // it so far.
  std::vector<int64_t> most = {1};
  size_t i = 0;
  while (i < pattern.size()) {
    int64_t copies = 1;  // number of copies of the part that is read next
    const char c = pattern[i];
    if (c == '(') {
      most.push_back(1);
      ++i;
      continue;
    }
    if (c == ')' && most.size() > 1) {
      copies = most.back();
      most.pop_back();
    }
    i = AtomEnd(pattern, i);
    while (i < pattern.size() && pattern[i] == '{') {
      const auto count = ReadCount(pattern, i);
      if (!count) break;
      copies = CheckedMul(copies, count->most).value_or(INT64_MAX);
      i = count->end;
    }
    most.back() = std::max(most.back(), copies);
  }
  return *std::max_element(most.begin(), most.end());
}

}  // namespace

void CheckSlowPattern(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const std::string& pattern = facts.rules()[r].match;
    const int64_t copies = Copies(pattern);
    if (copies < kManyCopies) continue;
    LintFinding finding =
        FindingAt(kSlowPattern.code, facts.RulePlace(static_cast<int32_t>(r)));
    finding.message = "pattern " + Quoted(pattern) + " repeats a part " +
                      CountText(copies) +
                      " times, and each is a copy in the automaton";
    finding.help = "write `+` or `*` if the count does not matter";
    sink.push_back(std::move(finding));
  }
}

namespace {

// Returns whether the rule's spec may use the text that a group of its pattern
// captures, as in `like: '\1.weight'`. Without a leading wildcard, the group
// could capture another text.
bool UsesMatch(const Rule& rule) {
  return std::holds_alternative<SpecLike>(rule.spec);
}

}  // namespace

void CheckRedundantWildcard(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.sketch.catch_all || rule.builtin) continue;
    const std::string& pattern = facts.rules()[r].match;
    const bool leading = pattern.starts_with(".*") &&
                         !pattern.starts_with(".*?") &&
                         pattern.find('|') == std::string::npos;
    if (!leading || UsesMatch(facts.rules()[r])) continue;
    LintFinding finding = FindingAt(kRedundantWildcard.code,
                                    facts.RulePlace(static_cast<int32_t>(r)));
    finding.message = "the leading `.*` of " + Quoted(pattern) +
                      " has no effect: a pattern may match anywhere in a name";
    finding.help = "write " + Quoted(pattern.substr(2));
    sink.push_back(std::move(finding));
  }
}

namespace {

std::vector<MissedState> Missed(const Facts& facts) {
  std::vector<std::string_view> patterns;
  for (const Rule& rule : facts.rules()) patterns.push_back(rule.match);
  const auto& names = facts.plan().names;
  const std::vector<std::string_view> views(names.begin(), names.end());
  return FindMissedStates(patterns, facts.compiled().matches, views,
                          facts.separator());
}

const ParamLayout& LayoutOf(const Facts& facts, uint32_t param) {
  return facts.plan().layouts[facts.plan().params[param].layout];
}

// Returns whether the spec of an optimizer state differs from its parameter's
// spec. They may be equal although the pattern misses the state, because
// another rule may assign the same spec.
bool Differs(const Facts& facts, const MissedState& missed) {
  const ParamLayout& state = LayoutOf(facts, missed.state);
  const ParamLayout& parameter = LayoutOf(facts, missed.parameter);
  return state.unmatched ||
         state.modes.front().resolved != parameter.modes.front().resolved;
}

}  // namespace

void CheckAnchoredMissesStates(const Facts& facts, FindingSink& sink) {
  if (facts.separator() == 0) return;
  // The optimizer states that each rule's pattern misses, keyed by rule.
  std::map<uint32_t, std::vector<uint32_t>> states;
  for (const MissedState& missed : Missed(facts)) {
    if (facts.rule_facts()[missed.pattern].builtin) continue;
    if (!Differs(facts, missed)) continue;
    states[missed.pattern].push_back(missed.state);
  }
  for (const auto& [rule, params] : states) {
    LintFinding finding =
        FindingAt(kAnchoredMissesStates.code,
                  facts.RulePlace(static_cast<int32_t>(rule)));
    finding.message =
        "pattern " + Quoted(facts.rules()[rule].match) +
        " begins with `^` and does not match " +
        Counted(static_cast<int64_t>(params.size()), "copy", "copies") +
        " of its parameters in the training state, such as " +
        Quoted(facts.plan().names[params.front()]);
    finding.help =
        "leave the `^` out, so that the rule also matches optimizer states";
    facts.AddNames(params, finding);
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
