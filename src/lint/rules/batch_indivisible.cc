#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

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

}  // namespace shardc
