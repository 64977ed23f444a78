#include <map>
#include <span>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/checked.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Those of one rule are one finding.
void Say(const Facts& facts, std::span<const ParameterGroup* const> groups,
         FindingSink& sink) {
  LintFinding finding;
  finding.code = &kLargeReplicated.code;
  finding.level = finding.code->level;
  finding.place = facts.GroupPlace(*groups.front());
  std::vector<std::string> texts;
  int64_t bytes = 0;
  for (const ParameterGroup* group : groups) {
    texts.push_back(ParametersText(facts, *group));
    bytes = CheckedAdd(bytes, facts.TotalBytes(*group)).value_or(INT64_MAX);
    for (std::string& name : facts.Names(*group)) {
      finding.params.push_back(std::move(name));
    }
    // A catch-all's share has lints of its own.
    finding.unless.push_back(WholeTopic(facts.Example(*group)));
  }
  finding.message =
      ListText(texts) + ", " + BytesText(bytes) + " (" +
      PercentText(bytes, facts.total_bytes()) + " of the model), lie" +
      (finding.params.size() == 1 ? "s" : "") + " whole on every one of " +
      Counted(facts.mesh().devices, "device");
  finding.help = "split a dimension, or say why not in the rule's `note`";
  sink.push_back(std::move(finding));
}

void Check(const Facts& facts, FindingSink& sink) {
  std::map<int32_t, std::vector<const ParameterGroup*>> by_rule;
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Elements(group) < kLargeElements || !facts.Replicated(group)) {
      continue;
    }
    if (!facts.Judged(group)) continue;
    const int64_t bytes = facts.TotalBytes(group);
    if (bytes < facts.total_bytes() / 100) continue;
    by_rule[group.rule].push_back(&group);
  }
  for (const auto& [rule, groups] : by_rule) Say(facts, groups, sink);
}

}  // namespace

constinit const Lint kLargeReplicated{
    .code = {207, "large-replicated", Level::kWarning,
             "a large parameter is whole on every device"},
    .needs = kNeedsShapes,
    .what =
        "Finds parameters of 65,536 elements or more that a rule of their "
        "own, or none, leaves whole on every device, from a hundredth of "
        "the model on.",
    .why =
        "Each device pays for all of its bytes, and again for gradients "
        "and optimizer state.",
    .instead = "Split a dimension.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'embedding'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed/embedding": {"shape": [32000, 4096], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'embedding'
    spec: [VOCAB, FSDP]
)"},
    .check = Check};

}  // namespace shardc
