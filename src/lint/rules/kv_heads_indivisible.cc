#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "model/sub_axis.h"

namespace shardc {

extern const Lint kKvHeadsIndivisible;

namespace {

// Returns whether `kv_replicate` gives each device the head of its query heads.
bool ReplicatesKvHeads(const Facts& facts, const ModeSplit& split, int64_t kv) {
  return facts.compiled().rules.policy.kv_replicate.value_or(false) &&
         KvHeadAxes(facts.mesh(), split.axes, kv).has_value();
}

void CheckKvHeadsIndivisible(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return;
  const int64_t kv = heads->kv_heads;
  for (const ModeSplit& split : SplitsOf(
           facts, "key", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    const int64_t parts = split.parts;
    if (kv % parts == 0 || ReplicatesKvHeads(facts, split, kv)) continue;
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
    finding.help =
        "give " + SourceOf(facts, split, "key", kHeadsDim, AxisRule::kKvHead) +
        " an axis whose size divides " + std::to_string(kv) +
        (parts % kv == 0 ? ", replicate the heads with `kv_replicate: true`"
                         : "") +
        ", or leave it unsharded and split the length instead";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kKvHeadsIndivisible{
    .code = {404, "kv-heads-indivisible", Level::kWarning,
             "KV heads do not divide by their axis"},
    .needs = kNeedsHeads,
    .what =
        "Finds models whose number of KV heads is not a multiple of the number "
        "of shards that an axis rule of a file gives them. For default axis "
        "rules head-split compares the projections.",
    .why =
        "The cache then holds several copies of each head, or is split inside "
        "a head, which costs memory or a collective in each layer.",
    .instead =
        "Use an axis size that divides the KV heads, or, on a multiple of "
        "them, `kv_replicate: true`.",
    .bad = {.mesh = "tp:16",
            .rules = R"(version: 1
axes: {kv_head: tp}
rules:
  - match: 'norm'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "norm/scale": {"shape": [4096], "dtype": "BF16"}}}
)",
            .model = R"({"num_attention_heads": 32, "num_key_value_heads": 8,
 "hidden_size": 4096}
)"},
    .good = {.mesh = "tp:8"},
    .check = CheckKvHeadsIndivisible};

}  // namespace shardc
