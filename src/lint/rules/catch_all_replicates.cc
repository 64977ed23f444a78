#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kCatchAllReplicates;

namespace {

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

}  // namespace

constinit const Lint kCatchAllReplicates{
    .code = {101, "catch-all-replicates", Level::kError,
             "large parameters match only the catch-all and are replicated"},
    .needs = kNeedsShapes,
    .what =
        "Finds parameters of 65,536 elements or more that only a catch-all "
        "such as `.*` matches, and that the catch-all replicates. It is "
        "reported if they are a fifth of the model, or a twentieth if a rule "
        "that matches nothing was probably intended for them; the message "
        "names such rules.",
    .why =
        "A catch-all makes every parameter count as matched, so that a wrong "
        "path part is not detected until the devices run out of memory: each "
        "device holds all of these bytes on any mesh.",
    .instead = "Correct the path in the rule that was intended for them.",
    .bad = {.mesh = "fsdp:2,ep:2,tp:2",
            .rules = R"(version: 1
rules:
  - match: 'self_attn/(q|k|v)_proj/kernel'
    spec: ColumnWise
  - match: 'block_sparse_moe/experts/gate_proj/kernel'
    spec: ExpertColumnWise
  - match: '.*'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/self_attn/q_proj/kernel": {"shape": [2048, 4096], "dtype": "BF16"},
  "layers/0/mlp/experts/gate_proj/kernel": {"shape": [128, 2048, 768], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'self_attn/(q|k|v)_proj/kernel'
    spec: ColumnWise
  - match: 'mlp/experts/gate_proj/kernel'
    spec: ExpertColumnWise
  - match: '.*'
    spec: Replicated
)"},
    .check = CheckCatchAllReplicates};

}  // namespace shardc
