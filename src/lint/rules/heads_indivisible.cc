#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kHeadsIndivisible;

namespace {

void CheckHeadsIndivisible(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return;
  for (const ModeSplit& split : SplitsOf(
           facts, "query", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    const int64_t parts = split.parts;
    if (heads->heads % parts == 0) continue;
    if (!Written(facts, split.modes.front(), "query", kHeadsDim)) continue;
    LintFinding finding = FindingAt(kHeadsIndivisible.code, split.place);
    finding.message = "the model has " + std::to_string(heads->heads) +
                      " heads, " + AxesHave(facts, split.axes) + " in " +
                      ModesText(facts, split) + ": " +
                      RemainderText(heads->heads, parts);
    // If a finding at the rule of a projection is about the same heads, this
    // finding is redundant.
    finding.unless = {HeadsTopic(heads->heads, parts)};
    finding.reports = finding.unless;
    finding.help = "give " +
                   SourceOf(facts, split, "query", kHeadsDim, AxisRule::kHead) +
                   " an axis whose size divides the heads";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kHeadsIndivisible{
    .code = {409, "heads-indivisible", Level::kError,
             "attention heads do not divide by their axis"},
    .needs = kNeedsHeads,
    .what =
        "Finds models whose number of query heads is not a multiple of the "
        "number of shards that an axis rule of a file gives them. For default "
        "axis rules head-split compares the projections.",
    .why =
        "The query tensor cannot be sharded evenly: frameworks refuse it or "
        "replicate all heads.",
    .instead = "Use an axis size that divides the heads.",
    .bad = {.mesh = "tp:8",
            .rules = R"(version: 1
axes: {head: tp}
rules:
  - match: 'norm'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "norm/scale": {"shape": [4096], "dtype": "BF16"}}}
)",
            .model = R"({"num_attention_heads": 12, "hidden_size": 768}
)"},
    .good = {.mesh = "tp:4"},
    .check = CheckHeadsIndivisible};

}  // namespace shardc
