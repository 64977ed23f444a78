#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckCatchAllReplicates(const Facts& facts, FindingSink& sink) {
  for (const FallThrough& fall : CatchAllFallThroughs(facts)) {
    std::vector<std::string> texts;
    LintFinding finding =
        FindingAt(kCatchAllReplicates.code, facts.RulePlace(fall.rule));
    for (const ParameterGroup* group : fall.groups) {
      texts.push_back(ParametersText(facts, *group));
      finding.reports.push_back(ReplicatedTopic(facts.Example(*group)));
      facts.AddNames(facts.Members(*group), finding);
    }
    finding.message =
        BytesText(fall.bytes) + " (" +
        PercentText(fall.bytes, facts.total_bytes()) +
        " of the model) match only the catch-all " +
        Quoted(facts.rules()[static_cast<size_t>(fall.rule)].match) +
        " and are replicated on " + EveryDevice(facts) + ": " + ListText(texts);
    const Topic catch_all = CatchAllTopic(static_cast<size_t>(fall.rule));
    finding.unless = {catch_all};
    finding.reports.push_back(catch_all);
    if (fall.bytes > facts.total_bytes() / 2) {
      finding.reports.push_back(WholeModelTopic());
    }
    std::vector<std::string> rewrites;
    for (const IntendedFallThrough& one : fall.intended) {
      const NearRule& intended = one.intended;
      finding.reports.push_back(
          DeadRuleTopic(static_cast<size_t>(intended.rule)));
      std::string names = Quoted(GroupName(facts, *one.group));
      std::string found = Quoted(intended.found);
      std::string rewrite = Quoted(intended.rewrite);
      if (one.also) {
        names += " or " + Quoted(GroupName(facts, *one.also_group));
        found += " and " + Quoted(one.also->found);
        rewrite += " or " + Quoted(one.also->rewrite);
      }
      finding.labels.push_back(
          {facts.RulePlace(intended.rule),
           "matches nothing; intended for " + names + ": the rule has " +
               Quoted(intended.written) + " where the tree has " + found});
      if (!intended.rewrite.empty()) rewrites.push_back(rewrite);
    }
    // With the policy `unmatched: replicate`, removing the catch-all is not
    // enough: a parameter that no rule matches is replicated as well.
    const bool replicates =
        facts.compiled().Unmatched() == UnmatchedPolicy::kReplicate;
    finding.help =
        rewrites.empty()
            ? std::string("write rules for them above the catch-all, or ") +
                  (replicates ? "set `policy: {unmatched: error}` and remove "
                                "the catch-all"
                              : "remove the catch-all") +
                  ", so that an unmatched parameter is an error"
            : "write " + ListText(rewrites, 4);
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
