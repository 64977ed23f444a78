#include <cstdint>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/pattern_ends.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

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

}  // namespace shardc
