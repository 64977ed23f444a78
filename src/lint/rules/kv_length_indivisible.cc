#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckKvLengthIndivisible(const Facts& facts, FindingSink& sink) {
  const int64_t length = *facts.inputs().kv_len;
  for (const ModeSplit& split :
       SplitsOf(facts, "key", kLengthDim, facts.MeshPlace())) {
    const int64_t parts = split.parts;
    if (length % parts == 0) continue;
    LintFinding finding = FindingAt(kKvLengthIndivisible.code, split.place);
    finding.message = "the KV cache is " + std::to_string(length) + " long, " +
                      AxesHave(facts, split.axes) + " in " +
                      ModesText(facts, split) + ": " +
                      RemainderText(length, parts);
    finding.help = "make the cache " +
                   std::to_string((length / parts + 1) * parts) + " long";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
