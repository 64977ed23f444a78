#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckCatchAllTakesLarge(const Facts& facts, FindingSink& sink) {
  bool specific = false;
  for (const RuleFacts& rule : facts.rule_facts()) {
    if (!rule.sketch.catch_all) specific = true;
  }
  if (!specific) return;
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (!rule.sketch.catch_all) continue;
    std::vector<std::string> texts;
    LintFinding finding = FindingAt(kCatchAllTakesLarge.code,
                                    facts.RulePlace(static_cast<int32_t>(r)));
    int64_t bytes = 0;
    int64_t whole = 0;
    for (uint32_t index : rule.groups) {
      const ParameterGroup& group = facts.groups()[index];
      if (facts.Elements(group) < kLargeElements) continue;
      texts.push_back(ParametersText(facts, group));
      finding.reports.push_back(ReplicatedTopic(facts.Example(group)));
      bytes += facts.TotalBytes(group);
      if (facts.Replicated(group)) whole += facts.TotalBytes(group);
      facts.AddNames(facts.Members(group), finding);
    }
    if (texts.empty()) continue;
    // The lint catch-all-replicates may report the same parameters. This
    // finding is then redundant.
    finding.unless = {CatchAllTopic(r)};
    finding.message =
        BytesText(bytes) +
        " in large parameters get their spec from the catch-all " +
        Quoted(facts.rules()[r].match) +
        (whole > 0 ? ", which leaves " + BytesText(whole) + " replicated on " +
                         EveryDevice(facts) + ": "
                   : ": ") +
        ListText(texts);
    finding.help = "write a rule for them above the catch-all";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
