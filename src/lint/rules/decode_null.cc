#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kDecodeNull;

namespace {

constexpr AxisRule kStandard[] = {
    AxisRule::kBatch,         AxisRule::kQuerySequence, AxisRule::kKeySequence,
    AxisRule::kHead,          AxisRule::kKvHead,        AxisRule::kAttentionDim,
    AxisRule::kAttentionKvDim};

void CheckDecodeNull(const Facts& facts, FindingSink& sink) {
  const AxisRules& axes = facts.compiled().rules.axes;
  for (AxisRule standard : kStandard) {
    const auto decode = DecodeTwin(standard);
    if (!decode) continue;
    const auto& given = axes.Given(*decode);
    if (!given || !given->is_null) continue;
    const AxisGroup kept = axes.Value(standard).axes;
    if (kept.empty()) continue;
    const std::string name(AxisRuleName(*decode));
    LintFinding finding = FindingAt(
        kDecodeNull.code,
        facts.compiled().rules.axes_places[static_cast<size_t>(*decode)]);
    finding.unless = {DecodeNullTopic(AxisRuleName(*decode))};
    finding.message = Quoted(name + ": null") +
                      " does not unshard: the standard rule " +
                      Quoted(AxisRuleName(standard)) + ", " + GroupText(kept) +
                      ", still applies in decode";
    finding.help = "write " + Quoted(name + ": []") +
                   " to unshard in decode, or remove the line";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kDecodeNull{
    .code = {403, "decode-null", Level::kWarning,
             "a null decode rule does not replace the standard rule"},
    .what =
        "Finds decode axis rules that a file sets to null while the standard "
        "rule has axes.",
    .why =
        "As in the reference, null means that the standard rule is not "
        "replaced, so that the dimension stays split.",
    .instead = "Write an empty list to unshard.",
    .bad = {.mesh = "fsdp:2,tp:2",
            .rules = R"(version: 1
axes: {decode_head: null}
rules:
  - match: 'q_proj/kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/attn/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
axes: {decode_head: []}
rules:
  - match: 'q_proj/kernel'
    spec: ColumnWise
)"},
    .check = CheckDecodeNull};

}  // namespace shardc
