#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

void Check(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Elements(group) < kLargeElements || !facts.Replicated(group)) {
      continue;
    }
    if (!facts.Judged(group)) continue;
    const int64_t bytes = facts.TotalBytes(group);
    if (bytes < facts.total_bytes() / 100) continue;
    LintFinding finding = GroupFinding(
        facts, kLargeReplicated.code, group,
        ParametersText(facts, group) + ", " + BytesText(bytes) + " (" +
            PercentText(bytes, facts.total_bytes()) + " of the model), lie" +
            (group.count() == 1 ? "s" : "") + " whole on every one of " +
            Counted(facts.mesh().devices, "device"),
        "split a dimension, or say why not in the rule's `note`");
    // A catch-all's share has lints of its own.
    finding.unless = {WholeTopic(facts.Example(group))};
    sink.push_back(std::move(finding));
  }
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
