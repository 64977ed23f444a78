#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "match/state_names.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::vector<MissedState> Missed(const Facts& facts) {
  std::vector<std::string_view> patterns;
  for (const Rule& rule : facts.rules()) patterns.push_back(rule.match);
  const auto& names = facts.plan().names;
  const std::vector<std::string_view> views(names.begin(), names.end());
  return FindMissedStates(patterns, facts.compiled().matches, views,
                          facts.separator());
}

const ParamLayout& LayoutOf(const Facts& facts, uint32_t param) {
  return facts.plan().layouts[facts.plan().params[param].layout];
}

// Returns whether the spec of an optimizer state differs from its parameter's
// spec. They may be equal although the pattern misses the state, because
// another rule may assign the same spec.
bool Differs(const Facts& facts, const MissedState& missed) {
  const ParamLayout& state = LayoutOf(facts, missed.state);
  const ParamLayout& parameter = LayoutOf(facts, missed.parameter);
  return state.unmatched ||
         state.modes.front().resolved != parameter.modes.front().resolved;
}

}  // namespace

void CheckAnchoredMissesStates(const Facts& facts, FindingSink& sink) {
  if (facts.separator() == 0) return;
  // The optimizer states that each rule's pattern misses, keyed by rule.
  std::map<uint32_t, std::vector<uint32_t>> states;
  for (const MissedState& missed : Missed(facts)) {
    if (facts.rule_facts()[missed.pattern].builtin) continue;
    if (!Differs(facts, missed)) continue;
    states[missed.pattern].push_back(missed.state);
  }
  for (const auto& [rule, params] : states) {
    LintFinding finding =
        FindingAt(kAnchoredMissesStates.code,
                  facts.RulePlace(static_cast<int32_t>(rule)));
    finding.message =
        "pattern " + Quoted(facts.rules()[rule].match) +
        " begins with `^` and does not match " +
        Counted(static_cast<int64_t>(params.size()), "copy", "copies") +
        " of its parameters in the training state, such as " +
        Quoted(facts.plan().names[params.front()]);
    finding.help =
        "leave the `^` out, so that the rule also matches optimizer states";
    facts.AddNames(params, finding);
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
