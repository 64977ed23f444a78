#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kCatchAllTakesLarge;

namespace {

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

}  // namespace

constinit const Lint kCatchAllTakesLarge{
    .code = {103, "catch-all-takes-large", Level::kWarning,
             "large parameters get their spec from the catch-all"},
    .needs = kNeedsShapes,
    .what =
        "Finds parameters of 65,536 elements or more that only a catch-all "
        "matches and that catch-all-replicates does not report.",
    .why =
        "A catch-all is written for small parameters. A large one that only a "
        "catch-all matches has most often been renamed.",
    .instead = "Write a rule for the parameter above the catch-all.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: ColumnWise
  - match: '.*'
    spec: [[FSDP, SP]]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"},
  "layers/0/out/kernel": {"shape": [1024, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: ColumnWise
  - match: 'out/kernel'
    spec: RowWise
  - match: '.*'
    spec: [[FSDP, SP]]
)"},
    .check = CheckCatchAllTakesLarge};

}  // namespace shardc
