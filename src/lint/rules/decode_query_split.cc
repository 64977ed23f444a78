#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckDecodeQuerySplit(const Facts& facts, FindingSink& sink) {
  if (!Plans(facts, Mode::kDecode)) return;
  const AxisGroup axes =
      AttentionAxes(facts, Mode::kDecode, "query", kLengthDim);
  if (facts.mesh().Parts(axes).value_or(1) <= 1) return;
  const auto& rules = facts.compiled().rules;
  const auto& given = rules.axes.Given(AxisRule::kDecodeQuerySequence);
  const Registration* const own = facts.OverrideOf("QUERY_LENGTH");
  const bool is_null = own == nullptr && (!given || given->is_null);
  if (!given && own == nullptr &&
      !Written(facts, Mode::kDecode, "query", kLengthDim))
    return;
  LintFinding finding = FindingAt(
      kDecodeQuerySplit.code,
      rules.axes_places[static_cast<size_t>(AxisRule::kDecodeQuerySequence)]);
  if (!given) {
    finding.place = AttentionPlace(facts, Mode::kDecode, "query", kLengthDim,
                                   facts.MeshPlace());
  }
  if (own != nullptr) finding.place = own->place;
  finding.reports = {
      DecodeNullTopic(AxisRuleName(AxisRule::kDecodeQuerySequence))};
  finding.message =
      "in decode the query has length 1, which is split over " +
      GroupText(axes) + ", which " + (axes.size() == 1 ? "has " : "have ") +
      std::to_string(facts.mesh().Parts(axes).value_or(1)) +
      (is_null ? ": a null decode rule does not replace the standard rule"
               : "");
  finding.help = std::string("write ") +
                 (own == nullptr ? "`axes: {decode_query_sequence: []}`"
                                 : "`generation: null` in this registration") +
                 " to unshard it in decode";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
