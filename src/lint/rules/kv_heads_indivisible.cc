#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckKvHeadsIndivisible(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return;
  const int64_t kv = heads->kv_heads;
  for (const ModeSplit& split : SplitsOf(
           facts, "key", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    const int64_t parts = split.parts;
    if (kv % parts == 0) continue;
    if (!Written(facts, split.modes.front(), "key", kHeadsDim)) continue;
    LintFinding finding = FindingAt(kKvHeadsIndivisible.code, split.place);
    finding.message =
        "the model has " + std::to_string(kv) + " KV heads, " +
        AxesHave(facts, split.axes) + " in " + ModesText(facts, split) + ": " +
        (parts % kv == 0
             ? "each head would be on " + std::to_string(parts / kv) +
                   " devices, or split between them"
             : RemainderText(kv, parts));
    // A finding about the same numbers of heads and shards makes this finding
    // redundant. That finding may be at the rule of a projection. If there are
    // as many query heads as KV heads, it may also be about query heads.
    finding.unless = {HeadsTopic(kv, parts)};
    finding.help = "give " +
                   SourceOf(facts, split, "key", kHeadsDim, AxisRule::kKvHead) +
                   " an axis whose size divides " + std::to_string(kv) +
                   ", or leave it unsharded and split the length instead";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
