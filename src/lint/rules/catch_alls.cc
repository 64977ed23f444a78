// Lints about catch-all rules, which match whatever no earlier rule matches:
// they should replicate or shard only what is small, and come last.
//
//   - match: '.*', spec: Replicated   a renamed `q_proj` falls to it
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/pattern_faults.h"
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
      if (facts.Elements(group) < kLargeElements ||
          IsReplicatedHalf(facts, group)) {
        continue;
      }
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

void CheckCatchAllNotLast(const Facts& facts, FindingSink& sink) {
  const auto& rules = facts.rule_facts();
  for (size_t r = 0; r < rules.size(); ++r) {
    if (!rules[r].sketch.catch_all || rules[r].builtin) continue;
    const Source* file = facts.rules()[r].place.source.get();
    Finding finding;
    int64_t below = 0;
    bool same_file = false;
    for (size_t later = r + 1; later < rules.size(); ++later) {
      if (rules[later].sketch.catch_all) continue;
      ++below;
      if (facts.rules()[later].place.source.get() == file) same_file = true;
      if (finding.labels.size() < 3) {
        finding.labels.push_back(
            {facts.RulePlace(static_cast<int32_t>(later)), "never reached"});
      }
    }
    if (below == 0) continue;
    finding.code = &kCatchAllNotLast.code;
    // If all rules below are in other files, the finding is only a warning. One
    // file may extend the other only to use its definitions.
    finding.level = same_file ? kCatchAllNotLast.code.level : Level::kWarning;
    finding.place = facts.RulePlace(static_cast<int32_t>(r));
    finding.message = "the catch-all " + Quoted(facts.rules()[r].match) +
                      " is above " + Counted(below, "rule") +
                      (same_file ? "" : " of other files") +
                      ", which it makes dead";
    finding.help = same_file ? "move it to the end"
                             : "remove it if one of these files has one";
    sink.push_back(std::move(finding));
    return;
  }
}

}  // namespace shardc
