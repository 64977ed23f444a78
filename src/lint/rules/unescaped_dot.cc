#include "lint/analysis/dots.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

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

}  // namespace shardc
