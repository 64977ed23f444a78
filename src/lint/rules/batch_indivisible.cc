#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kBatchIndivisible;

namespace {

void CheckBatchIndivisible(const Facts& facts, FindingSink& sink) {
  const int64_t batch = *facts.inputs().batch;
  for (const ModeSplit& split :
       SplitsOf(facts, "query", kBatchDim, facts.MeshPlace())) {
    const int64_t parts = split.parts;
    if (batch % parts == 0) continue;
    LintFinding finding = FindingAt(kBatchIndivisible.code, split.place);
    finding.message = "the batch is " + std::to_string(batch) + ", " +
                      AxesHave(facts, split.axes) + " in " +
                      ModesText(facts, split) + ": " +
                      RemainderText(batch, parts);
    const std::string source =
        SourceOf(facts, split, "query", kBatchDim, AxisRule::kBatch);
    finding.help = "use a batch of " +
                   std::to_string((batch / parts + 1) * parts) +
                   ", or name fewer axes in " +
                   (source.front() == '`' ? "the axis rule " + source : source);
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kBatchIndivisible{
    .code = {408, "batch-indivisible", Level::kError,
             "the batch does not divide by its axes"},
    .needs = kNeedsBatch,
    .what = "Finds batches that are not a multiple of the number of shards.",
    .why = "Frameworks refuse such a batch when the first step runs.",
    .instead = "Use a multiple of the number of shards.",
    .bad = {.mesh = "dp:2,fsdp:4",
            .rules = R"(version: 1
rules:
  - match: 'norm'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "norm/scale": {"shape": [4096], "dtype": "BF16"}}}
)",
            .batch = 1},
    .good = {.batch = 8},
    .check = CheckBatchIndivisible};

}  // namespace shardc
