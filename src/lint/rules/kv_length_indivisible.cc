#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kKvLengthIndivisible;

namespace {

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

}  // namespace

constinit const Lint kKvLengthIndivisible{
    .code = {406, "kv-length-indivisible", Level::kError,
             "the KV cache's length does not divide by its axis"},
    .needs = kNeedsKvLen,
    .what =
        "Finds lengths of the KV cache that are not a multiple of the number "
        "of shards.",
    .why =
        "All devices hold equally many positions, so that the cache cannot be "
        "sharded.",
    .instead = "Round the length up.",
    .bad = {.mesh = "sp:4",
            .rules = R"(version: 1
rules:
  - match: 'norm'
    spec: Replicated
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "norm/scale": {"shape": [4096], "dtype": "BF16"}}}
)",
            .kv_len = 8190},
    .good = {.kv_len = 8192},
    .check = CheckKvLengthIndivisible};

}  // namespace shardc
