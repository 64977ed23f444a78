#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

constexpr AxisRule kStandard[] = {
    AxisRule::kBatch,         AxisRule::kQuerySequence, AxisRule::kKeySequence,
    AxisRule::kHead,          AxisRule::kKvHead,        AxisRule::kAttentionDim,
    AxisRule::kAttentionKvDim};

}  // namespace

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

}  // namespace shardc
